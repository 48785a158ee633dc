#include "infer/cuda/device_error.h"

#include <fmt/format.h>

#include "core/error.h"
#include "infer/forward/machine.h"

namespace folio::infer::gpu {
namespace {

std::string version_name(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }
std::string capability_name(int capability) { return fmt::format("{}.{}", capability / 10, capability % 10); }
double megabytes(uint64_t bytes) { return static_cast<double>(bytes) / 1e6; }

}  // namespace

std::string name_of(const std::string& name, int device) { return fmt::format("{}, device {}", name, device); }

void fail_without_driver(int needed) {
  core::fail("no usable GPU: this machine has no NVIDIA driver; install one for CUDA {} or newer, or use --device cpu",
             version_name(needed));
}

void fail_old_driver(int needed, int found) {
  core::fail(
      "no usable GPU: the NVIDIA driver supports CUDA {}, but this build needs {}; update the driver, or build with "
      "the CUDA {} toolkit",
      version_name(found), version_name(needed), version_name(found));
}

void fail_without_devices(const std::string& reason) {
  core::fail("no usable GPU: the NVIDIA driver reports: {}; check nvidia-smi, or use --device cpu", reason);
}

void fail_no_such_device(int device, int n_devices) {
  core::fail("GPU {} not found: this machine has {}, numbered from 0; list them with --device list", device, n_devices);
}

void fail_old_device(const std::string& where, int capability) {
  core::fail("{} has compute capability {}, but the kernels need {} (Ampere) or newer; use --device cpu", where,
             capability_name(capability), capability_name(kLeastCapability));
}

void fail_no_kernels(const std::string& where, int capability) {
  throw MachineError(fmt::format(
      "{}: this build has no kernels for compute capability {}; configure with -DCMAKE_CUDA_ARCHITECTURES={}", where,
      capability_name(capability), capability));
}

void fail_out_of_memory(const std::string& where, uint64_t wanted, uint64_t free) {
  throw MachineError(
      fmt::format("{}: out of memory: {:.1f} MB requested, {:.1f} MB free; use a shorter context, --cache-type f16, "
                  "or fewer --gpu-layers",
                  where, megabytes(wanted), megabytes(free)));
}

void fail_out_of_memory(const std::string& what, const std::string& where, uint64_t free) {
  throw MachineError(
      fmt::format("{}: out of memory: {} needs more than the {:.1f} MB free; reduce the cache with --cache-memory",
                  where, what, megabytes(free)));
}

void fail_out_of_pinned_memory(uint64_t wanted) {
  throw MachineError(
      fmt::format("cannot allocate {:.1f} MB of pinned host memory; use a smaller batch, or close other programs",
                  megabytes(wanted)));
}

void fail_operation(const std::string& what, const std::string& where, const std::string& reason) {
  throw MachineError(fmt::format(
      "{}: {} failed: {}; run the command under compute-sanitizer and report its output, or use --device cpu", where,
      what, reason));
}

void fail_lost(const std::string& what, const std::string& where, const std::string& reason) {
  throw MachineLost(fmt::format(
      "{}: {} failed: {}; restart the program; if it fails again, run it under compute-sanitizer, or use --device cpu",
      where, what, reason));
}

}  // namespace folio::infer::gpu
