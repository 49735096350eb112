// Which instruction set a translation unit is built for. Files *_avx2.cpp,
// *_avxvnni.cpp, *_avx512.cpp and *_amx.cpp get the compiler flags.
//
// Code that is compiled once per instruction set lives in headers, inside `namespace eb { namespace EB_ISA { ... } }`,
// and everything in it has internal linkage or that namespace's name: the linker must never pick the AVX2 copy of an
// inline function for the portable path. Such units therefore use no templates of the standard library.
#pragma once

// EB_EMULATED_AVX512: the AVX-512 intrinsics come from elsewhere (tests on machines without them).
#if (defined(__AVX512F__) && defined(__AVX512BW__)) || defined(EB_EMULATED_AVX512)
#define EB_AVX512
#define EB_ISA avx512
#elif defined(EB_AVXVNNI)
#define EB_ISA avxvnni
#elif defined(__AVX2__) && ((defined(__FMA__) && defined(__F16C__)) || defined(_MSC_VER))
#define EB_ISA avx2
#else
#define EB_ISA portable
#endif
#if defined(EB_AVX512) || defined(EB_AVXVNNI)
#define EB_BYTE_PRODUCTS
#endif

namespace eb {

// avxvnni: AVX2 with products of bytes; amx: AVX-512 with a unit for matrices.
enum class Isa : int { portable = 0, avx2 = 1, avxvnni = 2, avx512 = 3, amx = 4 };

// The best instruction set that this processor and operating system can run and this library holds.
Isa best_isa();

}  // namespace eb
