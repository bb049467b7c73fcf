#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../../config/config.h"
#include "doctor.h"
#include "../program/elf_target.h"

enum { LINE_CHARS = 512 };

/* ---- the file */

static void pass_program(struct doctor *doctor, struct elf_target *elf) {
    const char *sanitizer = doctor->target.sanitizer;
    elf_target_read(doctor->target.last, elf);
    if (elf->kind != ELF_TARGET_PROGRAM)
        findings_add(&doctor->findings, FINDING_PASS, "program", "", "", "%s: text for the shell", doctor->target.chain);
    else
        findings_add(&doctor->findings, FINDING_PASS, "program", "", "",
                     "%s: %s-bit, dynamically linked, no special rights, loader %s%s%s%s", doctor->target.chain,
                     elf->elf_class == 2 ? "64" : "32", elf->interpreter, *sanitizer ? "; built with " : "", sanitizer,
                     *sanitizer ? ", which is loaded first" : "");
}

static void warn_of_program(struct doctor *doctor) {
    struct problem advice;
    preflight_advise(&doctor->target, &advice);
    if (*advice.id)
        findings_add(&doctor->findings, FINDING_WARN, "program", advice.id, advice.cure, "%s", advice.what);
}

/* Returns whether the program could be started. */
static bool check_program(struct doctor *doctor, struct elf_target *elf) {
    const char *search = config_variable(doctor->environment, "PATH"), *shim = config_variable(doctor->environment, CONFIG_ENV_SHIM);
    struct problem problem;
    char *self[] = {(char *)(uintptr_t) "/proc/self/exe", NULL};
    if (preflight_run(doctor->program ? doctor->program : self, search, shim, &doctor->target, &problem)) {
        bool is_ours = !strcmp(problem.id, "AR-SHIM-MISSING") || !strcmp(problem.id, "AR-SHIM-PATH");
        findings_add(&doctor->findings, FINDING_FAIL, is_ours ? "installation" : "program", problem.id, problem.cure, "%s", problem.what);
        return false;
    }
    findings_add(&doctor->findings, FINDING_PASS, "installation", "", "", "accel-run " ACCEL_RUN_VERSION ", %s", doctor->target.shim);
    if (doctor->program) {
        pass_program(doctor, elf);
        warn_of_program(doctor);
    }
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
    bool is_wrapped =
        doctor->program && doctor->program[1] && !strcmp(doctor->program[1], "run"); /* poetry, conda, pipenv: in a Python of their own */
    enum finding_state if_missing = doctor->program && !is_wrapped ? FINDING_FAIL : FINDING_WARN;
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
    if (torch_find_of_program(&doctor->torch, doctor->target.last, elf->interpreter, doctor->environment))
        findings_add(&doctor->findings, FINDING_WARN, "libraries", "AR-LIBRARY", "does the program start without accel-run?",
                     "the dynamic loader cannot list them: %s", doctor->torch.problem);
    else
        check_libraries(doctor);
}

void doctor_program(struct doctor *doctor) {
    static struct elf_target elf; /* static: 4 KiB */
    char python[PATH_MAX];
    struct problem problem;
    const char *search = config_variable(doctor->environment, "PATH");
    doctor->can_start = check_program(doctor, &elf);
    if (doctor->program && !doctor->can_start)
        return;
    if (doctor->program && *doctor->target.python)
        check_python(doctor, doctor->target.python);
    else if (!doctor->program && preflight_find("python3", search, python, &problem) == 0)
        check_python(doctor, python);
    else if (doctor->program && elf.kind == ELF_TARGET_PROGRAM)
        check_compiled(doctor, &elf);
}
