/* Folders and what is in them. */
#ifndef ACCEL_RUN_TREE_H
#define ACCEL_RUN_TREE_H

/* Removes a file, or a folder with all that is in it. Links are not followed; what cannot be removed stays. */
void tree_remove(const char *path);

#endif
