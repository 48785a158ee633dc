// Replaces mmap() in the fuzz targets, linked with --wrap=mmap,--wrap=munmap: reads a file into a heap block of exactly
// its size. A mapping ends at a page boundary, so AddressSanitizer couldn't detect a read past the end of the file.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

namespace {
constexpr size_t kAlignment = 4096;  // page size, since mmap() returns page-aligned addresses
}

extern "C" {

void* __wrap_mmap(void*, size_t length, int, int, int fd, off_t offset) {
  void* block = nullptr;
  if (::posix_memalign(&block, kAlignment, length) != 0) return MAP_FAILED;
  size_t read = 0;
  while (read < length) {
    const ssize_t n = ::pread(fd, static_cast<char*>(block) + read, length - read, offset + static_cast<off_t>(read));
    if (n <= 0) {
      std::free(block);
      return MAP_FAILED;
    }
    read += static_cast<size_t>(n);
  }
  return block;
}

int __wrap_munmap(void* block, size_t) {
  std::free(block);
  return 0;
}

}  // extern "C"
