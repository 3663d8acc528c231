"""The command line: one file for each verb. It reads flags and calls one function."""
