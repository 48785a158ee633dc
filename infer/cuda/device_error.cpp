#include "infer/cuda/device_error.h"

#include "core/error.h"

namespace folio::infer::gpu {
namespace {

std::string version_name(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }
std::string capability_name(int capability) { return fmt::format("{}.{}", capability / 10, capability % 10); }
double megabytes(uint64_t bytes) { return static_cast<double>(bytes) / 1e6; }

}  // namespace

std::string name_of(const std::string& name, int device) { return fmt::format("{}, device {}", name, device); }

void fail_without_driver(int needed) {
  core::fail(
      "no GPU can be used: this machine has no NVIDIA driver; install one for CUDA {} or newer, or take --device cpu",
      version_name(needed));
}

void fail_old_driver(int needed, int found) {
  core::fail(
      "no GPU can be used: the NVIDIA driver is for CUDA {}, and this build needs {}; update the driver, or build with "
      "the toolkit of CUDA {}",
      version_name(found), version_name(needed), version_name(found));
}

void fail_without_devices(const std::string& reason) {
  core::fail("no GPU can be used: the NVIDIA driver says: {}; look at nvidia-smi, or take --device cpu", reason);
}

void fail_no_such_device(int device, int n_devices) {
  core::fail("there is no GPU {}: this machine has {}, counted from 0; --device list shows them", device, n_devices);
}

void fail_old_device(const std::string& where, int capability) {
  core::fail("{} has compute capability {}, and the kernels need {} (Ampere) or newer; take --device cpu", where,
             capability_name(capability), capability_name(kLeastCapability));
}

void fail_no_kernels(const std::string& where, int capability) {
  core::fail(
      "{}: this build has no kernels for its compute capability {}; configure with "
      "-DCMAKE_CUDA_ARCHITECTURES={}",
      where, capability_name(capability), capability);
}

void fail_out_of_memory(const std::string& where, uint64_t wanted, uint64_t free) {
  core::fail(
      "{}: {:.1f} MB are wanted and {:.1f} MB of its memory are free; take a shorter context, --cache-type f16, "
      "or fewer --gpu-layers",
      where, megabytes(wanted), megabytes(free));
}

void fail_out_of_memory(const std::string& what, const std::string& where, uint64_t free) {
  core::fail(
      "{}: {} needs more than the {:.1f} MB of its memory that are free; give the cache less with --cache-memory",
      where, what, megabytes(free));
}

void fail_out_of_pinned_memory(uint64_t wanted) {
  core::fail(
      "the host has no {:.1f} MB of memory that a GPU can copy from; take a smaller batch, or end other programs",
      megabytes(wanted));
}

void fail_operation(const std::string& what, const std::string& where, const std::string& reason) {
  core::fail("{}: {} failed: {}; run the command under compute-sanitizer and report what it says, or take --device cpu",
             where, what, reason);
}

}  // namespace folio::infer::gpu
