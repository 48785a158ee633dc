// Creates the Gloo and NCCL backends. c10d's header ProcessGroupGloo.hpp includes Gloo's own headers, which LibTorch's
// wheel lacks. The directory gloo/ has stubs for them; only this file includes the stubs.
#ifndef USE_C10D_GLOO
#define USE_C10D_GLOO
#endif

#if defined(FOLIO_NCCL) && !defined(USE_C10D_NCCL)
#define USE_C10D_NCCL
#endif

#include <cstdlib>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#ifdef FOLIO_NCCL
#include <ATen/Context.h>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

#include "train/parallel/group.h"

namespace folio::train::parallel {

using c10d::ProcessGroup;
using c10d::ProcessGroupGloo;

bool has_nccl() {
#ifdef FOLIO_NCCL
  return true;
#else
  return false;
#endif
}

c10::intrusive_ptr<ProcessGroup> Group::connect(const c10::intrusive_ptr<c10d::Store>& store, int64_t rank,
                                                int64_t size, std::chrono::milliseconds timeout) {
  auto options = ProcessGroupGloo::Options::create(timeout);
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  options->devices.push_back(interface != nullptr ? ProcessGroupGloo::createDeviceForInterface(interface)
                                                  : ProcessGroupGloo::createDefaultDevice());
  const auto n = static_cast<int>(size), index = static_cast<int>(rank);
  auto group = c10::make_intrusive<ProcessGroup>(store, index, n);
  group->setBackend(c10::DeviceType::CPU, ProcessGroup::BackendType::GLOO,
                    c10::make_intrusive<ProcessGroupGloo>(store, index, n, std::move(options)));
  group->setDefaultBackend(ProcessGroup::BackendType::GLOO);
#ifdef FOLIO_NCCL
  if (at::hasCUDA()) {
    ::setenv("TORCH_NCCL_BLOCKING_WAIT", "1", /*overwrite=*/0);  // a timeout throws instead of aborting the process
    auto nccl = c10d::ProcessGroupNCCL::Options::create();
    nccl->timeout = timeout;
    const auto own = c10::make_intrusive<c10d::PrefixStore>("nccl", store);
    group->setBackend(c10::DeviceType::CUDA, ProcessGroup::BackendType::NCCL,
                      c10::make_intrusive<c10d::ProcessGroupNCCL>(own, index, n, std::move(nccl)));
  }
#endif
  return group;
}

}  // namespace folio::train::parallel
