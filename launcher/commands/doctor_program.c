#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../../config/config.h"
#include "doctor.h"
#include "../elf_target.h"

enum { LINE_CHARS = 512 };

/* ---- the file */

/* The chain of first lines: "./train.sh, /bin/sh"; the last one is left in *elf. */
static void describe_chain(const char *path, struct elf_target *elf, char *text) {
    int used = snprintf(text, LINE_CHARS, "%s", path);
    elf_target_read(path, elf);
    for (int depth = 0; elf->kind == ELF_TARGET_SCRIPT && depth < 5 && used < LINE_CHARS; depth++) {
        char interpreter[PATH_MAX];
        memcpy(interpreter, elf->interpreter, sizeof interpreter);
        used += snprintf(text + used, (size_t)(LINE_CHARS - used), ", a script of %s", interpreter);
        elf_target_read(interpreter, elf);
    }
}

static void pass_program(struct doctor *doctor, struct elf_target *elf) {
    char chain[LINE_CHARS];
    describe_chain(doctor->target.path, elf, chain);
    const char *sanitizer = doctor->target.sanitizer;
    findings_add(&doctor->findings, FINDING_PASS, "program", "", "", "%s: %s-bit, dynamically linked, no special rights, loader %s%s%s%s",
                 chain, elf->elf_class == 2 ? "64" : "32", elf->interpreter, *sanitizer ? "; built with " : "", sanitizer,
                 *sanitizer ? ", which is loaded first" : "");
}

/* Returns whether the program could be started. */
static bool check_program(struct doctor *doctor, struct elf_target *elf) {
    const char *search = config_variable(doctor->environment, "PATH"), *shim = config_variable(doctor->environment, CONFIG_ENV_SHIM);
    struct problem problem;
    const char *name = doctor->program ? doctor->program[0] : "/proc/self/exe";
    if (preflight_run(name, search, shim, &doctor->target, &problem)) {
        bool is_ours = !strcmp(problem.id, "AR-SHIM-MISSING") || !strcmp(problem.id, "AR-SHIM-PATH");
        findings_add(&doctor->findings, FINDING_FAIL, is_ours ? "installation" : "program", problem.id, problem.cure, "%s", problem.what);
        return false;
    }
    findings_add(&doctor->findings, FINDING_PASS, "installation", "", "", "accel-run " ACCEL_RUN_VERSION ", %s", doctor->target.shim);
    if (doctor->program)
        pass_program(doctor, elf);
    return true;
}

/* ---- its libraries */

static void check_libraries(struct doctor *doctor) {
    char missing[LINE_CHARS] = "";
    size_t used = 0;
    for (int i = 0; i < doctor->torch.libraries.count && used < sizeof missing - 100; i++)
        if (!*doctor->torch.libraries.list[i].path)
            used += (size_t)snprintf(missing + used, sizeof missing - used, "%s%s", used ? ", " : "", doctor->torch.libraries.list[i].name);
    if (used)
        findings_add(&doctor->findings, FINDING_FAIL, "libraries", "AR-LIBRARY",
                     "install them, or name their folder in LD_LIBRARY_PATH; the program itself does not start without them",
                     "the dynamic loader does not find %s", missing);
    else
        findings_add(&doctor->findings, FINDING_PASS, "libraries", "", "", "all %d libraries are found by the dynamic loader",
                     doctor->torch.libraries.count);
}

static void check_python(struct doctor *doctor, const char *python) {
    struct torch_find *torch = &doctor->torch;
    enum finding_state if_missing = doctor->program ? FINDING_FAIL : FINDING_WARN;
    if (torch_find_of_python(torch, python, doctor->environment)) {
        findings_add(&doctor->findings, if_missing, "python", "AR-PYTHON", "does it start without accel-run?", "%s fails: %s", python,
                     torch->problem);
        return;
    }
    if (!*torch->folder) {
        findings_add(&doctor->findings, if_missing, "python", "AR-TORCH-MISSING",
                     "activate the environment that has torch, or name its interpreter: accel-run -n 2 /path/to/venv/bin/python train.py",
                     "%s (Python %s) has no package torch", torch->python, torch->python_version);
        return;
    }
    findings_add(&doctor->findings, FINDING_PASS, "python", "", "", "Python %s (%s), torch %s (%s)", torch->python_version, torch->python,
                 *torch->version ? torch->version : "of unknown version", torch->folder);
    check_libraries(doctor);
}

static void check_compiled(struct doctor *doctor, const struct elf_target *elf) {
    if (torch_find_of_program(&doctor->torch, doctor->target.path, elf->interpreter, doctor->environment))
        findings_add(&doctor->findings, FINDING_WARN, "libraries", "AR-LIBRARY", "does the program start without accel-run?",
                     "the dynamic loader cannot list them: %s", doctor->torch.problem);
    else
        check_libraries(doctor);
}

/* `python -u train.py`: the first argument that is no option of the interpreter, when it is a file's name. */
static void check_script(struct doctor *doctor) {
    int at = 1;
    while (doctor->program[at] && doctor->program[at][0] == '-')
        at++;
    const char *script = doctor->program[at];
    size_t length = script ? strlen(script) : 0;
    if (length > 3 && !strcmp(script + length - 3, ".py") && access(script, R_OK))
        findings_add(&doctor->findings, FINDING_FAIL, "script", "AR-EXEC-NOT-FOUND", "check the path of the script",
                     "'%s' cannot be read: %s", script, strerror(errno));
}

void doctor_program(struct doctor *doctor) {
    static struct elf_target elf; /* static: 4 KiB */
    char python[PATH_MAX];
    const char *search = config_variable(doctor->environment, "PATH");
    doctor->can_start = check_program(doctor, &elf);
    if (doctor->program && !doctor->can_start)
        return;
    if (doctor->program)
        check_script(doctor);
    if (torch_find_interpreter(doctor->program ? doctor->program[0] : "python3", search, python) == 0)
        check_python(doctor, python);
    else if (doctor->program && elf.kind == ELF_TARGET_PROGRAM && strcmp(doctor->target.path, "") && !strstr(elf.interpreter, "/env"))
        check_compiled(doctor, &elf);
}
