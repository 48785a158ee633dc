// Makes results reproducible by fixing the number of threads: with another number, LibTorch may add in another order
// and round differently. By default, MKL chooses the number of threads per product; at::set_num_threads() disables
// that. On Intel processors with AVX-512, MKL can compute the same bits with any number of threads (MKL_CBWR), at no
// cost with two threads and up to 4 % with one.
#pragma once

#include <string>
#include <string_view>

namespace folio::train {

/// Makes LibTorch, MKL, OpenBLAS and OpenMP use exactly `threads` threads (0: LibTorch's default) in operations started
/// by this thread, regardless of environment variables. Call it before the first operation.
void fix_threads(int threads);

/// Returns why a resumed run may differ from an uninterrupted one; empty if it does not. `device` is "cpu" or "cuda".
[[nodiscard]] std::string why_not_repeatable(std::string_view device);
/// Returns why a resumed run may differ, if at::show_config() is `config`; empty if it does not. `openblas` must be
/// true if OpenBLAS is loaded.
[[nodiscard]] std::string why_not_repeatable(std::string_view device, std::string_view config, bool openblas);

}  // namespace folio::train
