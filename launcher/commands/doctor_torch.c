#include <stdio.h>
#include <string.h>

#include "doctor.h"

/* ---- found */

static bool check_found(struct doctor *doctor) {
    const struct torch_find *torch = &doctor->torch;
    if (torch->cpu && *torch->cpu->path) {
        findings_add(&doctor->findings, FINDING_PASS, "libtorch", "", "", "%s, %s", *torch->version ? torch->version : "unknown version",
                     torch->cpu->path);
        return true;
    }
    if (!doctor->program)
        findings_add(&doctor->findings, FINDING_WARN, "libtorch", "AR-TORCH-MISSING", "name the program: accel-run doctor ./train",
                     "no libtorch was looked at");
    else if (doctor->can_start && !torch->cpu)
        findings_add(
            &doctor->findings, FINDING_WARN, "libtorch", "AR-TORCH-MISSING",
            "if it is a script that starts the trainer, name that one here; if libtorch is linked statically into it, link it dynamically",
            "'%s' does not load libtorch when it starts: only what it loads later, or starts, can be divided", doctor->program[0]);
    return false;
}

/* ---- the hook table */

static void look(struct doctor *doctor) {
    const struct torch_find *torch = &doctor->torch;
    static const char *const others[] = {"libstdc++", "libc"};
    rows_look(&doctor->rows, torch->cpu->path, "libtorch_cpu");
    if (torch->c10)
        rows_look(&doctor->rows, torch->c10->path, "libc10");
    if (torch->bindings)
        rows_look(&doctor->rows, torch->bindings->path, "libtorch_python");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const struct library *library = libraries_find(&torch->libraries, others[i]);
        if (library)
            rows_look(&doctor->rows, library->path, others[i]);
    }
    if (!*torch->folder)
        rows_look(&doctor->rows, doctor->target.path, "");
}

/* Is libtorch_cpu bound to itself? Its calls to its own functions then do not pass through symbols; hooks are put into tables of classes instead. */
static void check_class(struct doctor *doctor) {
    bool is_bound = rows_is_bound(&doctor->rows, "libtorch_cpu");
    findings_add(&doctor->findings, FINDING_PASS, "build", "", "",
                 is_bound ? "bound to itself (-Bsymbolic): hooks are put into the tables of its classes"
                          : "its own calls pass through symbols (PLT): hooks are found before libtorch's functions");
}

static void fail_row(struct doctor *doctor, const struct row *row) {
    bool is_either = !strcmp(row->library, "libc10_or_cpu");
    findings_add(&doctor->findings, FINDING_FAIL, row->is_call ? "functions" : "hooks", "AR-TORCH-UNSUPPORTED",
                 "use a libtorch of docs/compatibility.md; the program itself runs without accel-run", "%s lacks %s (%s)",
                 is_either ? "libtorch_cpu" : row->library, row->name, row->symbol);
}

static bool is_missing(const struct doctor *doctor, const struct row *row) {
    bool is_looked_at = strcmp(row->library, "libtorch_python") || doctor->torch.bindings;
    return row->need != ROW_OPTIONAL && is_looked_at && !rows_is_satisfied(&doctor->rows, row);
}

static void check_rows(struct doctor *doctor) {
    const struct rows *rows = &doctor->rows;
    int hooks = 0, calls = 0, by_name = 0, by_address = 0, failed = 0;
    for (int i = 0; i < rows->count; i++) {
        const struct row *row = &rows->list[i];
        hooks += row->is_present && !row->is_call;
        calls += row->is_present && row->is_call;
        by_name += row->is_present && !row->is_call && row->by_name;
        by_address += row->is_present && !row->is_call && row->by_address && !row->by_name;
        if (!is_missing(doctor, row))
            continue;
        failed++;
        fail_row(doctor, row);
    }
    if (!failed)
        findings_add(&doctor->findings, FINDING_PASS, "hooks", "", "",
                     "all that are required are there: %d functions are hooked (%d called by name, %d by address, the rest from elsewhere; "
                     "'--rows' lists them), %d are called",
                     hooks, by_name, by_address, calls);
}

void doctor_torch(struct doctor *doctor) {
    doctor->has_torch = check_found(doctor);
    if (!doctor->has_torch)
        return;
    if (rows_read(&doctor->rows, doctor->target.shim)) {
        findings_add(&doctor->findings, FINDING_WARN, "hooks", "AR-SHIM-MISSING", "install accel-run and its library from one build",
                     "'%s' has no hook table: what this libtorch lacks is not known", doctor->target.shim);
        return;
    }
    look(doctor);
    check_class(doctor);
    check_rows(doctor);
}
