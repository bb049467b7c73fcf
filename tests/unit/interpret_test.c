// sources: launcher/program/interpret.c
#define _GNU_SOURCE
#include "unit.h"

#include "../../launcher/program/interpret.h"

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define ARGUMENTS(...) ((char *[]){__VA_ARGS__, NULL})

/* The words of a first line, with '|' between them. */
static const char *line_words(const char *interpreter, const char *argument) {
    static struct interpret_line line;
    static char text[512];
    *text = 0;
    if (!interpret_first_line(interpreter, argument, "script", &line))
        return "unknown";
    for (int i = 0; line.words[i]; i++)
        strcat(strcat(text, i ? "|" : ""), line.words[i]);
    return text;
}

TEST("the argument of a first line is one word, and many where env splits it") {
    EXPECT_TEXT(line_words("/bin/sh", ""), "script");
    EXPECT_TEXT(line_words("/bin/sh", "-e -u"), "-e -u|script");
    EXPECT_TEXT(line_words("/usr/bin/env", "python3"), "python3|script");
    EXPECT_TEXT(line_words("/usr/bin/env", "python3 -u"), "python3 -u|script");
    EXPECT_TEXT(line_words("/usr/bin/env", "-S A=1  python3 -u\r"), "A=1|python3|-u|script");
    EXPECT_TEXT(line_words("/usr/bin/env", "--split-string=sh -e"), "sh|-e|script");
    EXPECT_TEXT(line_words("/usr/bin/env", "-S \"a b\" c"), "unknown");
    EXPECT_TEXT(line_words("/usr/bin/env", "-S ${HOME}/bin/x"), "unknown");
}

TEST("more words than there is room for are left to env") {
    char many[3 * INTERPRET_WORDS_MAX + 3] = "-S";
    for (int i = 0; i < INTERPRET_WORDS_MAX; i++)
        strcat(many, " x");
    EXPECT_TEXT(line_words("/usr/bin/env", many), "unknown");
}

static const char *command_of(const char *const *words, const char **search) {
    const char *const *command = interpret_env(words, search);
    return !command ? "unknown" : *command ? *command : "none";
}

TEST("the command of env, and where env looks for it") {
    const char *search = "here";
    EXPECT_TEXT(command_of(WORDS("A=1", "B=", "./train", "C=2"), &search), "./train");
    EXPECT_TEXT(command_of(WORDS("-u", "A", "--unset=B", "-uC", "-v", "--", "D=1", "./train"), &search), "./train");
    EXPECT_TEXT(search, "here");
    EXPECT_TEXT(command_of(WORDS("PATH=/there", "train"), &search), "train");
    EXPECT_TEXT(search, "/there");
    EXPECT_TEXT(command_of(WORDS("-i", "train"), &search), "train");
    EXPECT(search == NULL);
    EXPECT_TEXT(command_of(WORDS("-u", "PATH", "train"), &search), "train");
    EXPECT_TEXT(command_of(WORDS("A=1"), &search), "none");
    EXPECT_TEXT(command_of(WORDS("-u"), &search), "unknown");
    EXPECT_TEXT(command_of(WORDS("-C", "/", "./train"), &search), "unknown");
    EXPECT(interpret_is_env("/usr/bin/env") && interpret_is_env("/bin/env") && !interpret_is_env("./env"));
}

TEST("a program is shown by the name that the user has for it") {
    EXPECT_TEXT(interpret_shown(ARGUMENTS("./train", "x.py")), "./train");
    EXPECT_TEXT(interpret_shown(ARGUMENTS("/venv/bin/python3.11", "-u", "-W", "ignore", "train.py", "other.py")), "train.py");
    EXPECT_TEXT(interpret_shown(ARGUMENTS("python", "-m", "pkg.train", "x")), "pkg.train");
    EXPECT_TEXT(interpret_shown(ARGUMENTS("python", "-c", "print(1)")), "python");
    EXPECT_TEXT(interpret_shown(ARGUMENTS("python", "-u")), "python");
    EXPECT_TEXT(interpret_shown(ARGUMENTS("python", "-m")), "python");
    EXPECT_TEXT(interpret_shown(ARGUMENTS("python", "-")), "-");
    EXPECT_TEXT(interpret_shown(ARGUMENTS("env", "A=1", "python3", "train.py")), "train.py");
    EXPECT_TEXT(interpret_shown(ARGUMENTS("/usr/bin/env", "A=1", "./train")), "./train");
    EXPECT_TEXT(interpret_shown(ARGUMENTS("env", "A=1")), "env");
    EXPECT_TEXT(interpret_shown(ARGUMENTS("./env", "A=1", "./train")), "./env");
}

TEST("options of Python may stand in one word, with what they take behind them: a file further on is the program's argument") {
    EXPECT_TEXT(interpret_python(WORDS("-mpkg.train", "data.py")), "pkg.train");
    EXPECT_TEXT(interpret_python(WORDS("-um", "pkg.train", "data.py")), "pkg.train");
    EXPECT_TEXT(interpret_python(WORDS("-Wignore", "-Bmpkg.train", "data.py")), "pkg.train");
    EXPECT_TEXT(interpret_python(WORDS("-cimport train", "data.py")), "-c");
    EXPECT_TEXT(interpret_python(WORDS("-uc", "import train", "data.py")), "-c");
    EXPECT_TEXT(interpret_python(WORDS("-uX", "dev", "train.py")), "train.py");
    EXPECT_TEXT(interpret_python(WORDS("-Xmanual", "-WXc", "train.py", "-m", "x")), "train.py");
    EXPECT_TEXT(interpret_python(WORDS("--version", "train.py")), "train.py");
    EXPECT_TEXT(interpret_shown(ARGUMENTS("python3", "-mpkg.train", "data.py")), "pkg.train");
}
