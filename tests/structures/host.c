/* A program that loads what it trains with at run time: host local|global|deep PLUGIN. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    int scope = !strcmp(argv[1], "global") ? RTLD_GLOBAL : !strcmp(argv[1], "deep") ? RTLD_LOCAL | RTLD_DEEPBIND : RTLD_LOCAL;
    printf("host\n");
    void *plugin = dlopen(argv[2], RTLD_LAZY | scope);
    if (!plugin) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    int (*train)(int) = (int (*)(int))dlsym(plugin, "plugin_train");
    return train ? train(6) : 1;
}
