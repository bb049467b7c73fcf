/* Who listens to draws of random numbers: hooks/load, which must know whether reading an example draws; and who tells whether one is being read. */
#include "shim.h"

_Atomic(draw_listener *) shim_draw_listener;
_Atomic(reading_teller *) shim_reading_teller;
