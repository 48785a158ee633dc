// What goes wrong on a GPU: each throws core::Error, one line with what, where and the remedy. The texts are here and
// not in device.cu, since nvcc is not given fmt's headers.
#pragma once

#include <cstdint>
#include <string>

namespace folio::infer::gpu {

/// The oldest compute capability that has the instructions which the kernels use: Ampere's.
inline constexpr int kLeastCapability = 80;  ///< 10 * major + minor

/// "NVIDIA H100, device 1", for `where`.
[[nodiscard]] std::string name_of(const std::string& name, int device);

// A version is 1000 * major + 10 * minor, as CUDA has them.
[[noreturn]] void fail_without_driver(int needed);
[[noreturn]] void fail_old_driver(int needed, int found);
[[noreturn]] void fail_without_devices(const std::string& reason);
[[noreturn]] void fail_no_such_device(int device, int n_devices);
[[noreturn]] void fail_old_device(const std::string& where, int capability);
/// The kernels of this build are for other GPUs.
[[noreturn]] void fail_no_kernels(const std::string& where, int capability);
[[noreturn]] void fail_out_of_memory(const std::string& where, uint64_t wanted, uint64_t free);
/// CUDA itself needed the memory, for a kernel's stacks or a recording.
[[noreturn]] void fail_out_of_memory(const std::string& what, const std::string& where, uint64_t free);
[[noreturn]] void fail_out_of_pinned_memory(uint64_t wanted);
/// `what` couldn't be done or issued. An operation that was issued before may be the cause.
[[noreturn]] void fail_operation(const std::string& what, const std::string& where, const std::string& reason);

}  // namespace folio::infer::gpu
