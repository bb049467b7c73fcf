/*
 * A list to choose from in a terminal: arrow keys or a number move, Enter takes. While the list stands, the terminal gives each key at once and does not
 * echo; it is given back as it was on every way out: answered, Ctrl-C and other signals, a crash, Ctrl-Z (and taken again when the user comes back).
 */
#ifndef ACCEL_RUN_MENU_H
#define ACCEL_RUN_MENU_H

enum { MENU_END = -1, MENU_BACK = -2, MENU_MORE = -3 };

/* Can one be shown: stdin and stdout are a terminal that moves its cursor? term: the variable TERM, or NULL. */
int menu_is_possible(const char *term);

/* Asks for one of the choices (NULL at the end), beginning at `chosen`. Returns its index; MENU_BACK for b or the left arrow, MENU_MORE for '?', MENU_END
   when the input has ended. */
int menu_choose(const char *question, const char *const *choices, int chosen);

#endif
