// What LibTorch's sums depend on beside their inputs, fixed: with it a process repeats the bits of another one.
// A matrix product that is shared by two threads may add in another order than on one. Left alone, MKL chooses the
// number of threads anew for each product; at::set_num_threads() ends that, but only where somebody calls it.
#pragma once

#include <string>
#include <string_view>

namespace folio::train {

/// From here on every operation of this thread uses `threads` threads, in MKL, OpenBLAS and OpenMP too, whatever the
/// environment says. 0: as many as LibTorch would use. Call it before the first operation.
void fix_threads(int threads);

/// Why a resumed run may not repeat the bits of an undisturbed one, as one line; empty where it does. `device` is "cpu"
/// or "cuda".
[[nodiscard]] std::string why_not_repeatable(std::string_view device);

/// The same for a LibTorch whose at::show_config() is `config`; `openblas`: whether the process has OpenBLAS loaded.
[[nodiscard]] std::string why_not_repeatable(std::string_view device, std::string_view config, bool openblas);

}  // namespace folio::train
