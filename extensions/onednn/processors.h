// Functions that are compiled once for each kind of processor; the right one is chosen when the program starts.

#ifndef METAPL_ONEDNN_PROCESSORS_H_
#define METAPL_ONEDNN_PROCESSORS_H_

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif

#endif  // METAPL_ONEDNN_PROCESSORS_H_
