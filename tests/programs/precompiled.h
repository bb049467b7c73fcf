// What programs.mk compiles once per build of libtorch, to spare every program half a minute.
#include <torch/torch.h>

#include <iostream>
