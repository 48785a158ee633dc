// The header of c10d's Gloo backend includes Gloo's own, which the wheel lacks; those in gloo/ stand for them. Only
// this file sees them.
#ifndef USE_C10D_GLOO
#define USE_C10D_GLOO
#endif

#include "train/parallel/backend.h"

#include <cstdlib>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace folio::train::parallel {

c10::intrusive_ptr<c10d::ProcessGroup> connect(const c10::intrusive_ptr<c10d::Store>& store, int64_t rank, int64_t size,
                                               std::chrono::milliseconds timeout) {
  using c10d::ProcessGroup;
  using c10d::ProcessGroupGloo;
  auto options = ProcessGroupGloo::Options::create(timeout);
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  options->devices.push_back(interface != nullptr ? ProcessGroupGloo::createDeviceForInterface(interface)
                                                  : ProcessGroupGloo::createDefaultDevice());
  const auto n = static_cast<int>(size), index = static_cast<int>(rank);
  auto group = c10::make_intrusive<ProcessGroup>(store, index, n);
  group->setBackend(c10::DeviceType::CPU, ProcessGroup::BackendType::GLOO,
                    c10::make_intrusive<ProcessGroupGloo>(store, index, n, std::move(options)));
  group->setDefaultBackend(ProcessGroup::BackendType::GLOO);
  return group;
}

}  // namespace folio::train::parallel
