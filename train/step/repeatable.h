// Fixes the number of threads, on which the rounding of LibTorch's results depends: a product on two threads may add in
// another order than on one. By default MKL chooses the number for each product. at::set_num_threads() forbids that, so
// a process that calls it and one that does not differ in bits, even if both use two threads. On Intel's processors
// with AVX-512, MKL's products are asked for the same bits on any number (MKL_CBWR), which takes no time on two
// threads, and up to 4 % on one.
#pragma once

#include <string>
#include <string_view>

namespace folio::train {

/// Makes LibTorch, MKL, OpenBLAS and OpenMP use exactly `threads` threads in operations that this thread starts,
/// whatever environment variables say. 0: as many as LibTorch chooses. Call it before the first operation.
void fix_threads(int threads);

/// Why a resumed run may not repeat the bits of an undisturbed one, as one line; empty where it does. `device` is "cpu"
/// or "cuda".
[[nodiscard]] std::string why_not_repeatable(std::string_view device);

/// The same for a LibTorch whose at::show_config() is `config`; `openblas`: whether the process has OpenBLAS loaded.
[[nodiscard]] std::string why_not_repeatable(std::string_view device, std::string_view config, bool openblas);

}  // namespace folio::train
