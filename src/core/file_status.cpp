#include "core/file_status.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>

#include "core/error.h"

namespace folio::core {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_at(const char* what, const fs::path& path, const std::error_code& error) {
  fail("{} {}: {}", what, path.string(), reason_of(error.value()));
}

fs::file_status status_of(const fs::path& path) {
  require_path(path);
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (error && status.type() != fs::file_type::not_found) fail_at("cannot access", path, error);
  return status;
}

}  // namespace

void require_path(const fs::path& path) {
  require(path.native().find('\0') == std::string::npos,
          "the file name \"{}\" contains a NUL byte, which is not allowed", [&] { return printable(path.native()); });
}

bool path_exists(const fs::path& path) { return fs::exists(status_of(path)); }
bool is_folder(const fs::path& path) { return fs::is_directory(status_of(path)); }

fs::path normal_path(const fs::path& path) {
  fs::path normal = absolute_path(path).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

std::string plain_name(const fs::path& path) {
  const fs::path file = normal_path(path);
  return (is_folder(file) ? file.filename() : file.stem()).string();
}

bool is_plain_file(const fs::path& path) { return fs::is_regular_file(status_of(path)); }

uint64_t size_of_file(const fs::path& path) {
  require(is_plain_file(path), "cannot read {}: it is not a regular file; name a file", path.string());
  std::error_code error;
  const uint64_t size = fs::file_size(path, error);
  if (error) fail_at("cannot access", path, error);
  return size;
}

fs::path without_links(const fs::path& path) {
  require_path(path);
  std::error_code error;
  fs::path result = fs::weakly_canonical(absolute_path(path), error);
  if (error) fail_at("cannot access", path, error);
  return result;
}

fs::path absolute_path(const fs::path& path) {
  std::error_code error;
  fs::path result = fs::absolute(path, error);
  if (error) fail_at("cannot determine the working directory for", path, error);
  return result;
}

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (const fs::recursive_directory_iterator end; !error && entry != end; entry.increment(error)) {
    if (entry->path().filename().native().starts_with('.')) {
      entry.disable_recursion_pending();
    } else if (is_plain_file(entry->path())) {
      files.push_back(entry->path());
    }
  }
  if (error) fail_at("cannot read the folder", folder, error);
  std::sort(files.begin(), files.end());
  return files;
}

bool make_folders(const fs::path& folder) {
  require_path(folder);
  std::error_code error;
  const bool is_new = fs::create_directories(folder, error);
  if (error) fail_at("cannot create the folder", folder, error);
  return is_new;
}

std::string reason_of(int error) {
  const auto remedy = [&] {
    switch (error) {
      case ENAMETOOLONG:
        return "; use a shorter name";
      case ELOOP:
        return "; remove the link that points to itself";
      case EACCES:
      case EPERM:
        return "; check the permissions of the file and of its folders";
      case ENOSPC:
        return "; free some space";
      default:
        return "";
    }
  };
  return std::string(std::strerror(error)) + remedy();
}

const char* kind_of_file(mode_t mode) {
  if (S_ISREG(mode)) return "a file";
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISBLK(mode)) return "a block device";
  return S_ISCHR(mode) ? "a device" : "of an unknown kind";
}

std::string describe(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return "out of memory; use a smaller model, batch or context";
  }
  const auto* const access = dynamic_cast<const fs::filesystem_error*>(&error);
  if (access == nullptr) return error.what();
  const fs::path& path = access->path2().empty() ? access->path1() : access->path2();
  return fmt::format("cannot access {}: {}", path.string(), reason_of(access->code().value()));
}

}  // namespace folio::core
