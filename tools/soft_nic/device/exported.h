// The library's C functions. They carry no symbol versions: the dynamic linker takes an unversioned
// definition of a preloaded library for any version that a program asks for, IBVERBS_1.0 to
// IBVERBS_PRIVATE_34 of every release alike.
#pragma once

#define SOFT_NIC_EXPORT extern "C" __attribute__((visibility("default")))
