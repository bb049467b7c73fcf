/* A program that loads what it trains with at run time: host local|global|deep PLUGIN [log|flushed]. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    int scope = !strcmp(argv[1], "global") ? RTLD_GLOBAL : !strcmp(argv[1], "deep") ? RTLD_LOCAL | RTLD_DEEPBIND : RTLD_LOCAL;
    FILE *log = argc > 3 ? fopen("run.log", "a") : NULL, *table = log ? fopen("table.csv", "w") : NULL;
    if (table) {
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
        fprintf(table, "6,0\n");
        fprintf(log, "ends\n");
        fclose(table);
        fclose(log);
    }
    return status;
}
