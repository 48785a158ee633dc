// Runs a target on each file of the given folders: seeds and earlier findings. Files named "good-*" must be accepted.
// Works with any compiler, with or without sanitizers.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

#include "tests/fuzz/fuzz.h"

namespace fs = std::filesystem;

namespace {

// Allocates for all forms of operator new. Each form must be replaced, because AddressSanitizer would otherwise report
// mismatched deallocations.
void* allocate(size_t size, size_t alignment) {
  folio::fuzz::check(size <= folio::fuzz::kMaxAllocation, "no allocation is larger than 256 MB");
  folio::fuzz::allocated_bytes += size;
  void* block = nullptr;
  if (::posix_memalign(&block, std::max(alignment, sizeof(void*)), std::max<size_t>(size, 1)) != 0)
    throw std::bad_alloc();
  return block;
}

}  // namespace

void* operator new(size_t size) { return allocate(size, alignof(std::max_align_t)); }
void* operator new[](size_t size) { return allocate(size, alignof(std::max_align_t)); }
void* operator new(size_t size, std::align_val_t alignment) { return allocate(size, static_cast<size_t>(alignment)); }
void* operator new[](size_t size, std::align_val_t alignment) { return allocate(size, static_cast<size_t>(alignment)); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return allocate(size, alignof(std::max_align_t)); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return allocate(size, alignof(std::max_align_t)); }
void operator delete(void* block) noexcept { std::free(block); }
void operator delete[](void* block) noexcept { std::free(block); }
void operator delete(void* block, const std::nothrow_t&) noexcept { std::free(block); }
void operator delete[](void* block, const std::nothrow_t&) noexcept { std::free(block); }
void operator delete(void* block, size_t) noexcept { std::free(block); }
void operator delete[](void* block, size_t) noexcept { std::free(block); }
void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }
void operator delete[](void* block, std::align_val_t) noexcept { std::free(block); }
void operator delete(void* block, size_t, std::align_val_t) noexcept { std::free(block); }
void operator delete[](void* block, size_t, std::align_val_t) noexcept { std::free(block); }

int main(int argc, char** argv) {
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    if (!fs::is_directory(argv[i])) continue;  // a target without findings has no folder
    for (const fs::directory_entry& entry : fs::directory_iterator(argv[i])) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  bool all_good = true;
  for (const fs::path& file : files) {
    std::fprintf(stderr, "%s\n", file.c_str());  // printed first: after a crash, the last line names the file
    const bool taken = folio::fuzz::take(folio::fuzz::file_bytes(file));
    if (taken || !file.filename().string().starts_with("good-")) continue;
    std::fprintf(stderr, "a good file is rejected: %s\n", file.c_str());
    all_good = false;
  }
  std::fprintf(stderr, "%zu files\n", files.size());
  return all_good && !files.empty() ? 0 : 1;
}
