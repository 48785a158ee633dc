// Fixes the number of threads, on which the rounding of LibTorch's results depends: a product on two threads may add in
// another order than on one. By default MKL chooses the number for each product; at::set_num_threads() forbids that. On
// Intel's processors with AVX-512, MKL computes the same bits on any number (MKL_CBWR), which costs nothing on two
// threads, and up to 4 % on one.
#pragma once

#include <string>
#include <string_view>

namespace folio::train {

/// Makes LibTorch, MKL, OpenBLAS and OpenMP use exactly `threads` threads in operations that this thread starts,
/// despite environment variables. 0: LibTorch's default. Call it before the first operation.
void fix_threads(int threads);

/// Why a resumed run may not repeat the bits of an undisturbed one; empty where it does. `device` is "cpu" or "cuda".
[[nodiscard]] std::string why_not_repeatable(std::string_view device);
/// The same for a LibTorch whose at::show_config() is `config`; `openblas`: whether the process has OpenBLAS loaded.
[[nodiscard]] std::string why_not_repeatable(std::string_view device, std::string_view config, bool openblas);

}  // namespace folio::train
