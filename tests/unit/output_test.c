// sources: launcher/streams/output.c launcher/streams/compare.c
#include "unit.h"

#include "../../launcher/streams/compare.h"
#include "../../launcher/streams/output.h"

static char shown[65536];

static void show(void *context, uint32_t rank, const char *line, size_t bytes) {
    size_t used = strlen(shown);
    snprintf(shown + used, sizeof shown - used, "%u:%.*s;", rank, (int)(bytes < 100 ? bytes : 100), line);
}

static void feed(struct output *output, uint32_t rank, const char *text) {
    output_feed(output, rank, text, strlen(text), 0);
}

/* The launcher looks all the time. */
static void pass(struct output *output, uint64_t from_ms, uint64_t to_ms) {
    for (uint64_t now_ms = from_ms; now_ms < to_ms; now_ms += 200)
        output_settle(output, now_ms, 0);
    output_settle(output, to_ms, 0);
}

static int same(const char *a, const char *b) {
    return compare_lines(a, strlen(a), b, strlen(b));
}

TEST("lines equal rank 0's are dropped, in whatever order and pieces they come") {
    struct output *output = output_new(2, show, NULL);
    feed(output, 1, "one\ntw");
    feed(output, 0, "o");
    feed(output, 0, "ne\ntwo\n");
    feed(output, 1, "o\nthree\n");
    feed(output, 0, "three\n");
    output_settle(output, 0, 1);
    EXPECT_TEXT(shown, "");
    EXPECT(!output_is_waiting(output));
    output_free(output);
}

TEST("one line more or less on a rank does not make the rest differ") {
    struct output *output = output_new(3, show, NULL);
    feed(output, 0, "a\nb\nc\nd\n");
    feed(output, 1, "a\nwarning\nb\nc\nd\n");
    feed(output, 2, "a\nc\nd\n");
    for (uint32_t rank = 0; rank < 3; rank++)
        output_end(output, rank, 0);
    output_settle(output, 0, 1);
    EXPECT_TEXT(shown, "1:warning;");
    output_free(output);
}

TEST("a line that differs waits for rank 0, and not for ever") {
    struct output *output = output_new(2, show, NULL);
    feed(output, 1, "alone\n");
    EXPECT_TEXT(shown, "");
    EXPECT(output_is_waiting(output));
    pass(output, 0, OUTPUT_WAIT_MS - 1);
    EXPECT_TEXT(shown, "");
    output_settle(output, OUTPUT_WAIT_MS, 0);
    EXPECT_TEXT(shown, "1:alone;");
    output_free(output);
}

TEST("while rank 0 is held up by a reader that rests nobody's line differs, and then it has time to say it") {
    enum { HOUR = 3600000 };
    struct output *output = output_new(2, show, NULL);
    feed(output, 1, "one\ntwo\n");
    output_hold(output, OUTPUT_HELD);
    pass(output, 0, HOUR);
    output_hold(output, OUTPUT_KNOWN);
    pass(output, HOUR, HOUR + OUTPUT_WAIT_MS - 1);
    EXPECT_TEXT(shown, "");
    output_feed(output, 0, "one\ntwo\n", 8, HOUR + OUTPUT_WAIT_MS - 1);
    EXPECT(!output_is_waiting(output));
    output_feed(output, 1, "other\n", 6, HOUR + OUTPUT_WAIT_MS - 1);
    pass(output, HOUR + OUTPUT_WAIT_MS, HOUR + 3 * OUTPUT_WAIT_MS);
    EXPECT_TEXT(shown, "1:other;");
    output_free(output);
}

TEST("what a stopped launcher has slept through is no time that a line has waited") {
    enum { HOUR = 3600000 };
    struct output *output = output_new(2, show, NULL);
    feed(output, 1, "one\n");
    output_feed(output, 1, "two\n", 4, HOUR);
    output_settle(output, HOUR, 0);
    EXPECT_TEXT(shown, "");
    pass(output, HOUR, HOUR + OUTPUT_WAIT_MS);
    EXPECT_TEXT(shown, "1:one;1:two;");
    output_free(output);
}

static void feed_numbers(struct output *output, uint32_t rank, int from, int to, uint64_t now_ms) {
    char line[32];
    for (int i = from; i < to; i++) {
        int bytes = snprintf(line, sizeof line, "number %d\n", i);
        output_feed(output, rank, line, (size_t)bytes, now_ms);
    }
}

TEST("after lines that rank 0 says too late, or never, the rest is compared as before") {
    for (int says = 0; says < 2; says++) {
        struct output *output = output_new(2, show, NULL);
        feed_numbers(output, 1, 0, 50, 0);
        pass(output, 0, OUTPUT_WAIT_MS);
        EXPECT(strstr(shown, "1:number 49;"));
        shown[0] = 0;
        if (says)
            feed_numbers(output, 0, 0, 50, OUTPUT_WAIT_MS);
        feed_numbers(output, 0, 50, 60, OUTPUT_WAIT_MS);
        feed_numbers(output, 1, 50, 60, OUTPUT_WAIT_MS);
        EXPECT_TEXT(shown, "");
        EXPECT(!output_is_waiting(output));
        feed(output, 0, "a\nb\n");
        feed(output, 1, "other\nb\n");
        output_end(output, 0, OUTPUT_WAIT_MS);
        EXPECT_TEXT(shown, "1:other;");
        shown[0] = 0;
        output_free(output);
    }
}

TEST("a rank that runs far ahead of one that is held up is not said to differ, and compared again afterwards") {
    struct output *output = output_new(2, show, NULL);
    output_hold(output, OUTPUT_HELD);
    feed_numbers(output, 1, 0, OUTPUT_LINES + 100, 0);
    output_hold(output, OUTPUT_KNOWN);
    feed_numbers(output, 0, 0, OUTPUT_LINES + 100, 0);
    EXPECT_TEXT(shown, "");
    EXPECT(!output_is_waiting(output));
    feed(output, 0, "same\na\n");
    feed(output, 1, "same\nb\n");
    output_end(output, 0, 0);
    EXPECT_TEXT(shown, "1:b;");
    output_free(output);
}

TEST("at the end of a run whose reader rests nothing differs from what nobody has read of rank 0") {
    struct output *output = output_new(2, show, NULL);
    feed(output, 0, "one\n");
    output_hold(output, OUTPUT_HELD);
    feed(output, 1, "one\ntwo\n");
    output_end(output, 0, 0);
    output_end(output, 1, 0);
    output_settle(output, 0, 1);
    EXPECT_TEXT(shown, "");
    output_free(output);
}

TEST("of a rank that ends in the midst of a line after rank 0 was cut short, the piece is not a difference") {
    struct output *output = output_new(2, show, NULL);
    feed_numbers(output, 0, 0, 100, 0);
    output_hold(output, OUTPUT_HELD);
    output_end(output, 0, 0);
    feed_numbers(output, 1, 0, 3, 0);
    feed(output, 1, "pie");
    output_end(output, 1, 0);
    output_settle(output, 0, 1);
    EXPECT_TEXT(shown, "");
    output_free(output);
}

TEST("of a rank 0 that has died, what others have said in the place of its lines is shown, and not what they have said behind its last "
     "one") {
    struct output *output = output_new(4, show, NULL);
    feed(output, 0, "a\nb\nc\nd\nha");
    feed(output, 1, "a\nother\nc\nd\nhalf\ne\n");
    feed(output, 2, "a\nb\nmore\nc\nd\nhalf\ne\nf");
    feed(output, 3, "a\nb\nc\nlast\nhalf\ne\n");
    output_hold(output, OUTPUT_CUT);
    for (uint32_t rank = 0; rank < 4; rank++)
        output_end(output, rank, 0);
    EXPECT_TEXT(shown, "");
    output_settle(output, 0, 1);
    EXPECT_TEXT(shown, "1:other;2:more;3:last;");
    output_free(output);
}

TEST("half lines with which all end before rank 0's end is understood are compared when it is; of a bar there is none") {
    struct output *output = output_new(3, show, NULL);
    feed(output, 0, "same\nhalf");
    feed(output, 1, "same\nother");
    feed(output, 2, "same\nhalf");
    EXPECT(output_is_within_line(output));
    output_hold(output, OUTPUT_HELD);
    for (int again = 0; again < 2; again++, output_hold(output, OUTPUT_KNOWN))
        for (uint32_t rank = 0; rank < 3; rank++)
            output_end(output, rank, 0);
    EXPECT_TEXT(shown, "1:other;");
    EXPECT(!output_is_within_line(output));
    output_free(output);
    output = output_new(2, show, NULL);
    feed(output, 0, "\r 10%\r 20%");
    EXPECT(!output_is_within_line(output));
    feed(output, 0, " 30%\r");
    EXPECT(!output_is_within_line(output));
    output_free(output);
}

TEST("when nobody reads any more, nothing differs") {
    struct output *output = output_new(2, show, NULL);
    feed(output, 0, "one\n");
    feed(output, 1, "one\ntwo\nthr");
    output_give_up(output);
    output_end(output, 0, 0);
    feed(output, 1, "ee\nfour\n");
    output_end(output, 1, 0);
    output_settle(output, OUTPUT_WAIT_MS, 1);
    EXPECT_TEXT(shown, "");
    EXPECT(!output_is_waiting(output));
    output_free(output);
}

TEST("progress bars are not compared, line ends of Windows are line ends") {
    struct output *output = output_new(2, show, NULL);
    feed(output, 0, "\r 1%\r100% 3.1it/s\nend\r\nmore\n");
    feed(output, 1, "\r 1%\r 50% x\r100% y\nend\r\nmore\n");
    output_end(output, 0, 0);
    output_end(output, 1, 0);
    output_settle(output, 0, 1);
    EXPECT_TEXT(shown, "");
    output_free(output);
}

TEST("the last line may lack its end") {
    struct output *output = output_new(2, show, NULL);
    feed(output, 0, "a");
    feed(output, 1, "b");
    output_end(output, 0, 0);
    output_end(output, 1, 0);
    output_settle(output, 0, 1);
    EXPECT_TEXT(shown, "1:b;");
    output_free(output);
}

static void feed_lines(struct output *output, uint32_t rank, int count) {
    char line[32];
    for (int i = 0; i < count; i++) {
        snprintf(line, sizeof line, "line %d\n", i);
        feed(output, rank, line);
    }
}

TEST("a whole vocabulary that one rank prints before the other is the same") {
    struct output *output = output_new(3, show, NULL);
    feed_lines(output, 1, 30000);
    feed_lines(output, 0, 30000);
    feed_lines(output, 2, 30000);
    feed(output, 2, "more\n");
    output_settle(output, 0, 1);
    EXPECT_TEXT(shown, "2:more;");
    output_free(output);
}

TEST("a rank far ahead is judged, one far behind is forgiven, memory is bounded") {
    struct output *output = output_new(2, show, NULL);
    for (int i = 0; i < OUTPUT_LINES + 1; i++)
        feed(output, 1, "ahead\n");
    EXPECT_TEXT(shown, "1:ahead;");
    output_free(output);
    shown[0] = 0;
    output = output_new(2, show, NULL);
    feed_lines(output, 0, 3 * OUTPUT_LINES);
    feed_lines(output, 1, 3 * OUTPUT_LINES);
    EXPECT_TEXT(shown, "");
    output_free(output);
}

TEST("of long lines fewer are kept") {
    static char line[OUTPUT_LINE_MAX];
    struct output *output = output_new(2, show, NULL);
    memset(line, 'x', sizeof line - 1);
    line[sizeof line - 2] = '\n';
    for (size_t bytes = 0; bytes <= OUTPUT_BYTES; bytes += sizeof line - 2) {
        EXPECT_TEXT(shown, "");
        feed(output, 1, line);
    }
    EXPECT(shown[0] == '1');
    output_free(output);
}

TEST("a line longer than the limit is compared by its beginning") {
    struct output *output = output_new(2, show, NULL);
    char *line = malloc(OUTPUT_LINE_MAX * 3);
    memset(line, 'x', OUTPUT_LINE_MAX * 3);
    line[OUTPUT_LINE_MAX * 3 - 1] = '\n';
    output_feed(output, 0, line, OUTPUT_LINE_MAX * 3, 0);
    line[OUTPUT_LINE_MAX * 2] = 'y';
    output_feed(output, 1, line, OUTPUT_LINE_MAX * 3, 0);
    output_settle(output, 0, 1);
    EXPECT_TEXT(shown, "");
    free(line);
    output_free(output);
}

TEST("floats are equal to rounding, whole numbers exactly") {
    EXPECT(same("loss 0.43120", "loss 0.43121"));
    EXPECT(same("loss=0.4312,", "loss=0.4313,"));
    EXPECT(same("x 1.000e-05", "x 1.0003e-5"));
    EXPECT(same("lr 0.0001", "lr 0.0002")); /* one in the last of four places */
    EXPECT(same("-0.5001", "-0.5000"));
    EXPECT(!same("loss 0.43", "loss 0.44"));
    EXPECT(!same("loss 0.5", "loss -0.5"));
    EXPECT(!same("step 100", "step 101"));
    EXPECT(!same("1000000", "1000001"));
    EXPECT(!same("nan", "0.5"));
    EXPECT(!same("loss 0.431", "acc 0.431"));
    EXPECT(!same("conv1", "conv2"));
    EXPECT(!same("0x1f", "0x2f"));
    EXPECT(!same("a 1.0", "a 1.0 b"));
    EXPECT(!same("", "x"));
    EXPECT(same("", ""));
}

TEST("addresses in memory are not compared, other numbers to base 16 are") {
    EXPECT(same("frame #11: start + 0x85 (0x7f53e7245305 in libc.so.6)", "frame #11: start + 0x85 (0x7f83a0845305 in libc.so.6)"));
    EXPECT(!same("frame #11: start + 0x85 (0x7f53e7245305 in libc.so.6)", "frame #11: start + 0x95 (0x7f53e7245305 in libc.so.6)"));
    EXPECT(!same("0x7f53e7245305 in libc", "0x7f53e7245305 in libm"));
    EXPECT(!same("0x12345678", "0x12345679"));
    EXPECT(!same("0x123456789", "0x"));
}

TEST("white space is white space") {
    EXPECT(same("a  1.25 b", "a 1.25\tb"));
    EXPECT(same(" a", "a"));
    EXPECT(same("a ", "a"));
    EXPECT(!same("ab", "a b"));
}

TEST("times are not compared") {
    EXPECT(same("epoch 1 took 1.31 s", "epoch 1 took 2.7 s"));
    EXPECT(same("[12:01:33] start", "[12:01:34] start"));
    EXPECT(same("2026-11-23 02:50:23,038 - loss 0.25", "2026-11-23 02:50:24,940 - loss 0.25")); /* Python's logging */
    EXPECT(same("02:50:23.038 | INFO", "02:50:24.940 | INFO") && same("2026-11-23T02:50:23.038Z", "2026-11-23T02:50:24.940Z"));
    EXPECT(!same("02:50:23,038 loss 0.25", "02:50:23,038 loss 0.35") && !same("[1,038]", "[1,039]"));
    EXPECT(same("3.2it/s, 12ms", "9.1it/s, 15ms"));
    EXPECT(!same("epoch 1 took 1.31 s", "epoch 2 took 1.31 s"));
    EXPECT(!same("5 samples", "6 samples"));
}

TEST("times that have a name but no unit are not compared") {
    EXPECT(same(
        "{'eval_loss': '0.68', 'eval_runtime': '0.0052', 'eval_samples_per_second': '9011', 'epoch': '2'}",
        "{'eval_loss': '0.68', 'eval_runtime': '0.0098', 'eval_samples_per_second': '4811', 'epoch': '2'}")); /* transformers.Trainer */
    EXPECT(same("Epoch: [0][10/50] Time  0.31 ( 0.29) Data  0.01 ( 0.02) Loss 2.3",
                "Epoch: [0][10/50] Time  0.62 ( 0.41) Data  0.31 ( 0.05) Loss 2.3"));
    EXPECT(same("loss: 0.25 time: 0.31  data: 0.9512", "loss: 0.25 time: 0.91  data: 0.0131")); /* torchvision's MetricLogger */
    EXPECT(same("iter 5: loss 0.25, time 9.31ms, mfu 12.34%", "iter 5: loss 0.25, time 8.12ms, mfu 14.01%"));
    EXPECT(same("step 5 | 3321 tok/s", "step 5 | 2987 tok/s") && same("123.4 samples/sec", "99.1 samples/sec") &&
           same("SPS: 812", "SPS: 640"));
    EXPECT(same("Epoch 00005 | Time(s) 0.0123 | Loss 2.3", "Epoch 00005 | Time(s) 0.0345 | Loss 2.3")); /* DGL */
    EXPECT(same("wps=1234.5, ups=3.1, wall=12.0", "wps=934.5, ups=2.4, wall=15.1") && same("31.2 FPS", "29.8 FPS"));
    EXPECT(!same("data 5", "data 6") && !same("took 5 steps", "took 6 steps") && !same("5 m/sx", "6 m/sx") &&
           !same("ups 0.5 loss 1.5", "ups 0.7 loss 2.5"));
    EXPECT(same("loss 2.3, 9.164 sec/batch", "loss 2.3, 12.1 sec/batch") && same("time/iter 9.82", "time/iter 12.1"));
    EXPECT(same("0.31 s/epoch", "0.4 s/epoch") && !same("9.1 apples/batch", "9.2 apples/batch"));
    EXPECT(same("ms/batch  5.31 | loss 2.3", "ms/batch 12.10 | loss 2.3") && same("elapsed=1.2 tok/s: 812", "elapsed=3.9 tok/s: 190"));
    EXPECT(!same("'eval_runtime': '0.0052', 'loss': '0.25'", "'eval_runtime': '0.0098', 'loss': '0.35'"));
    EXPECT(!same("Time 0.31 (0.29) 2.5", "Time 0.62 (0.41) 3.5") && !same("time 0.31 loss (0.29)", "time 0.31 loss (0.41)"));
    EXPECT(!same("12:01:33 1.3000 2.6", "12:01:33 4.3000 8.6") && !same("1.31s 1.3000 9", "1.31s 4.3000 30") &&
           !same("time 0.31 1.3", "time 0.31 4.3"));
    EXPECT(!same("12:01:33,038 1.3", "12:01:33,038 4.3") && !same("12:01:33 (1.3)", "12:01:33 (4.3)") && !same("eta 0.1", "eta 0.2"));
    EXPECT(same("|    fps        | 4775     |", "|    fps        | 1095     |")); /* stable-baselines3 */
    EXPECT(!same("timestep 5", "timestep 6") && !same("lifetime 5", "lifetime 6") && !same("time5", "time6") &&
           !same("runtime x", "runtime y"));
}
