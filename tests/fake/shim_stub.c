/* Stands for libaccelshim.so in tests of the launcher: a library that does nothing. Used through ACCEL_RUN_SHIM. */
int accel_shim_stub;
