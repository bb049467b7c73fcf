/* Who listens to draws of random numbers: hooks/load, which must know whether reading an example draws. */
#include "shim.h"

_Atomic(draw_listener *) shim_draw_listener;
