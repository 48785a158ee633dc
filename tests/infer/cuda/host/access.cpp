#include "tests/infer/cuda/host/access.h"

#include <dlfcn.h>

#include <cstdio>
#include <memory>

#include "core/error.h"

namespace folio::infer::gpu::host::races {
namespace {

const char* anchor() { return reinterpret_cast<const char*>(&to_offset); }

}  // namespace

int32_t to_offset(const void* code) { return static_cast<int32_t>(static_cast<const char*>(code) - anchor()); }
const void* from_offset(int32_t offset) { return anchor() + offset; }

std::string source_of(const void* code) {
  Dl_info info{};
  if (::dladdr(code, &info) == 0 || info.dli_fname == nullptr) return core::message("{}", code);
  const auto offset = static_cast<const char*>(code) - static_cast<const char*>(info.dli_fbase) - 1;
  const std::string command = core::message("addr2line -e '{}' 0x{:x} 2>/dev/null", info.dli_fname, offset);
  std::string line;
  if (const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose); pipe) {
    for (int c = std::fgetc(pipe.get()); c != EOF && c != '\n' && c != ' '; c = std::fgetc(pipe.get())) {
      line += static_cast<char>(c);
    }
  }
  if (line.empty() || line.starts_with("?")) return core::message("0x{:x} of {}", offset, info.dli_fname);
  return line.substr(line.rfind('/') + 1);
}

}  // namespace folio::infer::gpu::host::races
