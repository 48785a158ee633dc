// Errors of GPUs. Each fail_ function throws core::Error, or MachineError for errors that can occur in a step. The
// message is one line that states the problem, the remedy and, for most errors, the device. Separate from device.cu
// because nvcc does not compile fmt's headers.
#pragma once

#include <cstdint>
#include <string>

namespace folio::infer::gpu {

/// Minimum compute capability: the kernels use instructions that were added with Ampere.
inline constexpr int kLeastCapability = 80;  ///< 10 * major + minor

/// Returns a device's name for the parameter `where` of the functions below, such as "NVIDIA H100, device 1".
[[nodiscard]] std::string name_of(const std::string& name, int device);

// Driver versions are 1000 * major + 10 * minor, as in CUDA.
[[noreturn]] void fail_without_driver(int needed);
[[noreturn]] void fail_old_driver(int needed, int found);
[[noreturn]] void fail_without_devices(const std::string& reason);
[[noreturn]] void fail_no_such_device(int device, int n_devices);
[[noreturn]] void fail_old_device(const std::string& where, int capability);
/// Throws MachineError: this build has no kernels for the GPU's compute capability.
[[noreturn]] void fail_no_kernels(const std::string& where, int capability);
[[noreturn]] void fail_out_of_memory(const std::string& where, uint64_t wanted, uint64_t free);
/// Throws MachineError: CUDA ran out of device memory for `what`, such as a kernel's stack or a recording.
[[noreturn]] void fail_out_of_memory(const std::string& what, const std::string& where, uint64_t free);
[[noreturn]] void fail_out_of_pinned_memory(uint64_t wanted);
/// Throws MachineError: operation `what` failed. An asynchronous operation issued earlier may be the cause.
[[noreturn]] void fail_operation(const std::string& what, const std::string& where, const std::string& reason);
/// Throws MachineLost: operation `what` failed, and so will all later ones of this process.
[[noreturn]] void fail_lost(const std::string& what, const std::string& where, const std::string& reason);

}  // namespace folio::infer::gpu
