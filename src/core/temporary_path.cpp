#include "core/temporary_path.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <string_view>
#include <utility>

namespace folio::core {
namespace {

// A path that signal handlers remove. Slots are global and contain no pointers to memory that could be freed. Paths
// that are too long or find no free slot are not removed on a signal.
struct TemporarySlot {
  enum State : int { kFree, kClaimed, kSet };
  std::atomic<int> state{kFree};
  std::array<char, 4096> path{};
};
std::array<TemporarySlot, 16> temporary_slots;

size_t claim_slot(std::string_view path) {
  for (size_t i = 0; i < temporary_slots.size() && path.size() < TemporarySlot().path.size(); ++i) {
    TemporarySlot& slot = temporary_slots[i];
    int expected = TemporarySlot::kFree;
    if (!slot.state.compare_exchange_strong(expected, TemporarySlot::kClaimed)) continue;
    slot.path[path.copy(slot.path.data(), path.size())] = '\0';
    slot.state = TemporarySlot::kSet;
    return i;
  }
  return temporary_slots.size();
}

// Removes a directory that contains only files. Uses getdents64, since readdir() is not async-signal-safe.
void remove_folder(const char* path) {
  const int folder = ::open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return;
  alignas(dirent64) std::array<char, 4096> entries{};
  for (long n = 0; (n = ::syscall(SYS_getdents64, folder, entries.data(), entries.size())) > 0;) {
    for (long at = 0; at < n;) {
      const auto* entry = reinterpret_cast<const dirent64*>(entries.data() + at);
      ::unlinkat(folder, entry->d_name, 0);  // fails for . and .. without harm
      at += entry->d_reclen;
    }
  }
  ::close(folder);
  ::rmdir(path);
}

}  // namespace

TemporaryPath::TemporaryPath(std::filesystem::path path) : path_(std::move(path)), slot_(claim_slot(path_.native())) {}

TemporaryPath::~TemporaryPath() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  release();
}

void TemporaryPath::release() {
  if (slot_ < temporary_slots.size()) temporary_slots[slot_].state = TemporarySlot::kFree;
  slot_ = temporary_slots.size();
  path_.clear();
}

void remove_temporary_paths() noexcept {
  for (TemporarySlot& slot : temporary_slots) {
    if (slot.state != TemporarySlot::kSet) continue;
    const char* path = slot.path.data();
    // Tries again if another thread has added a file to the directory meanwhile.
    for (int attempt = 0; attempt < 100 && ::unlink(path) != 0 && errno == EISDIR; ++attempt) remove_folder(path);
  }
}

}  // namespace folio::core
