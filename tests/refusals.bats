#!/usr/bin/env bats
# What programs do around autograd that the ranks cannot do as one process does: refused by name. The programs are the cases of tests/programs/refused.py; each is
# run on one build, Debian's where it is the same on both, since the import of torch, most of such a run, takes a third there.
# Runs beside other files.

bats_require_minimum_version 1.5.0
load helpers
load programs

export BATS_TEST_TIMEOUT=600

setup_file() {
    programs_setup_file
}

@test "a hook of Python on a node of the graph whose gradients nobody knows is refused by name" {
    stopped debian AR-PY-HOOK refused.py node_hook
    stopped debian AR-PY-HOOK refused.py module_hook
    stopped debian AR-PY-HOOK refused.py leaf_hook
    stopped wheel AR-PY-HOOK refused.py node_prehook
}

@test "a number that each rank has computed otherwise, by a clock, and that meets divided values is refused by name" {
    stopped debian AR-NUMBERS-PARTED refused.py number_times_loss
    stopped debian AR-NUMBERS-PARTED refused.py number_in_a_hook
    stopped wheel AR-NUMBERS-PARTED refused.py number_of_dropout # another operator there
    stopped debian AR-NUMBERS-PARTED refused.py number_in_a_tensor
    stopped debian AR-NUMBERS-PARTED refused.py number_that_flows
    stopped debian AR-NUMBERS-PARTED refused.py number_after_a_gather
    stopped debian AR-NUMBERS-PARTED refused.py number_of_a_composite
    stopped debian AR-NUMBERS-PARTED refused.py numbers_by_column
    stopped debian AR-NUMBERS-PARTED refused.py numbers_in_another_order
    stopped debian AR-NUMBERS-PARTED refused.py number_of_a_class
}

@test "a write with a history, where rows of two tensors of one memory are held, is refused by name" {
    stopped wheel AR-WRITE refused.py rows_of_twins
}

@test "a parameter that is given the memory of divided rows (set_) is refused by name" {
    stopped wheel AR-WRITE refused.py set_leaf
}

@test "an operator that writes views of two copies of one memory at once is refused by name" {
    stopped debian AR-WRITE refused.py both_copies
}

@test "a divided tensor that is written through pointers of it and of a view of it at a time is refused by name" {
    stopped wheel AR-WRITE-MEMORY refused.py two_pointers
}

@test "strides of a view with gaps, autograd.grad of divided rows in a transform, traces, shared lists and torch.cond are refused by name" {
    stopped wheel AR-STRIDES refused.py gaps
    stopped debian AR-STRIDES refused.py gaps_with_place
    stopped debian AR-STRIDES refused.py gaps_of_row
    stopped debian AR-STRIDES refused.py gaps_from_place
    stopped wheel AR-STRIDES refused.py copied_gaps
    stopped wheel AR-GRAD-KIND refused.py mapped_grad
    stopped wheel AR-GRAD-KIND refused.py mapped_grad_outside
    stopped wheel AR-GRAD-KIND refused.py wrapped_gradient
    stopped wheel AR-GRAD-KIND refused.py wrapped_sum
    stopped wheel AR-SHARD-KIND refused.py jagged
    stopped debian AR-SHARD-KIND refused.py many_dimensions
    stopped wheel AR-TRACED refused.py traced
    stopped debian AR-TRACED refused.py traced_rows
    stopped wheel AR-TRACED refused.py traced_rows
    stopped wheel AR-TRACED refused.py traced_constant
    stopped wheel AR-MODE refused.py mode_in_backward
    stopped wheel AR-WRITE refused.py shared
    stopped wheel AR-HIGHER-ORDER refused.py cond
}

@test "functions that would be given a rank's part of gradients, or of what is saved for them, stop by name" {
    stopped wheel AR-COMM-HOOK refused.py comm_hook
    stopped debian AR-SAVED-HOOK refused.py saved_hook
}
