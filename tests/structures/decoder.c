/* A library of the program's own, which remembers how often it was called. Some of what it decodes hangs on that. */
static unsigned long calls;

double decoder_gain(unsigned long index) {
    calls++;
    return index % 40 == 39 ? 0.9 + 0.001 * (double)(calls % 100) : 1.0;
}

unsigned long decoder_calls(void) {
    return calls;
}
