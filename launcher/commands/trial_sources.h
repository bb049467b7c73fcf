/* The programs that `accel-run test` trains: plain users' programs, of some seconds, that print losses. */
#ifndef ACCEL_RUN_TRIAL_SOURCES_H
#define ACCEL_RUN_TRIAL_SOURCES_H

extern const char trial_python[], trial_cpp[];

#endif
