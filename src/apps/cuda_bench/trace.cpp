#include "apps/cuda_bench/trace.h"

#ifdef FOLIO_CUPTI
#include <cupti.h>
#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdlib>
#include <mutex>
#include <type_traits>
#endif

namespace folio::infer::gpu::bench {

#ifndef FOLIO_CUPTI

std::unique_ptr<Trace> Trace::begin(std::string& why) {
  why = "built without cupti.h; install CUDA's CUPTI and build again";
  return nullptr;
}
Trace::~Trace() = default;
void Trace::clear() {}
std::map<std::string, Trace::Kernel> Trace::kernels() { return {}; }

#else

namespace {

constexpr size_t kBufferBytes = size_t{8} << 20U;

// CUPTI's functions and the recorded results. They are global because CUPTI's callbacks have no user pointer.
struct Seen {
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityFlushAll) flush = nullptr;
  decltype(&cuptiActivityGetNextRecord) next = nullptr;
  std::mutex mutex;
  std::map<std::string, Trace::Kernel> kernels;
};
Seen& seen() {
  static Seen all;
  return all;
}

// Returns a kernel's demangled name without namespaces and parameters: "norm_block".
std::string short_name(const char* mangled) {
  int status = 0;
  char* full = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  std::string name = status == 0 ? full : mangled;
  std::free(full);
  for (const char* dropped : {"folio::infer::gpu::", "(anonymous namespace)::", "void "}) {
    const std::string text = dropped;
    for (size_t at = name.find(text); at != std::string::npos; at = name.find(text)) name.erase(at, text.size());
  }
  return name.substr(0, name.find('('));
}

void CUPTIAPI give_buffer(uint8_t** buffer, size_t* bytes, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *bytes = kBufferBytes;
  *most_records = 0;
}

void CUPTIAPI take_buffer(CUcontext /*context*/, uint32_t /*stream*/, uint8_t* buffer, size_t /*bytes*/, size_t valid) {
  Seen& all = seen();
  const std::lock_guard lock(all.mutex);
  CUpti_Activity* record = nullptr;
  while (valid > 0 && all.next(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL && record->kind != CUPTI_ACTIVITY_KIND_KERNEL) continue;
    // The fields read here have the same offsets in all versions of this struct since CUDA 11.
    const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel9*>(record);
    Trace::Kernel& sum = all.kernels[short_name(kernel->name)];
    ++sum.calls;
    sum.us += static_cast<double>(kernel->end - kernel->start) / 1e3;
  }
  std::free(buffer);
}

}  // namespace

std::unique_ptr<Trace> Trace::begin(std::string& why) {
  Seen& all = seen();
  if (all.enable == nullptr) {
    void* library = nullptr;
    for (const char* name : {"libcupti.so.13", "libcupti.so.12", "libcupti.so"}) {
      if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    if (library == nullptr) {
      why = "libcupti.so not found; add its directory to LD_LIBRARY_PATH";
      return nullptr;
    }
    const auto find = [&](const char* name, auto& to) {
      to = reinterpret_cast<std::remove_reference_t<decltype(to)> >(dlsym(library, name));
      return to != nullptr;
    };
    if (!find("cuptiActivityRegisterCallbacks", all.register_callbacks) || !find("cuptiActivityEnable", all.enable) ||
        !find("cuptiActivityDisable", all.disable) || !find("cuptiActivityFlushAll", all.flush) ||
        !find("cuptiActivityGetNextRecord", all.next)) {
      all.enable = nullptr;
      why = "libcupti.so lacks required functions; use the one of CUDA 12 or newer";
      return nullptr;
    }
  }
  if (all.register_callbacks(give_buffer, take_buffer) != CUPTI_SUCCESS ||
      all.enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) != CUPTI_SUCCESS) {
    why = "CUPTI cannot record kernels on this machine";
    return nullptr;
  }
  return std::unique_ptr<Trace>(new Trace);
}

Trace::~Trace() { seen().disable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL); }

void Trace::clear() {
  static_cast<void>(kernels());
  const std::lock_guard lock(seen().mutex);
  seen().kernels.clear();
}

std::map<std::string, Trace::Kernel> Trace::kernels() {
  seen().flush(1);  // 1: also flushes buffers that are not full
  const std::lock_guard lock(seen().mutex);
  return seen().kernels;
}

#endif

}  // namespace folio::infer::gpu::bench
