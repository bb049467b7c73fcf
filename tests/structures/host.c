/* A program that loads what it trains with at run time: host local|global|deep PLUGIN [log|flushed]. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Shows what the file holds, and removes it. */
static void show(const char *path) {
    char line[64];
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        printf("own %s", line);
    if (file)
        fclose(file);
    remove(path);
}

int main(int argc, char **argv) {
    int scope = !strcmp(argv[1], "global") ? RTLD_GLOBAL : !strcmp(argv[1], "deep") ? RTLD_LOCAL | RTLD_DEEPBIND : RTLD_LOCAL;
    FILE *log = argc > 3 ? fopen("run.log", "a") : NULL, *table = log ? fopen("table.csv", "w") : NULL;
    char own[64];
    snprintf(own, sizeof own, "rows.%d.csv", (int)getpid());
    FILE *rows = log ? fopen(own, "w") : NULL; /* each process has its own */
    if (table) {
        fprintf(rows, "one\n");
        fflush(rows);
        fprintf(table, "step,loss\n");
        fprintf(log, "begins\n");
        fflush(strcmp(argv[3], "flushed") ? table : log);
    }
    printf("host\n");
    void *plugin = dlopen(argv[2], RTLD_LAZY | scope);
    if (!plugin) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    int (*train)(int) = (int (*)(int))dlsym(plugin, "plugin_train");
    int status = train ? train(6) : 1;
    if (table) {
        fprintf(rows, "two\n");
        fclose(rows);
        show(own);
        fprintf(table, "6,0\n");
        fprintf(log, "ends\n");
        fclose(table);
        fclose(log);
    }
    return status;
}
