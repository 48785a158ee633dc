// Wrappers around std::filesystem that throw core::Error with a one-line message: the path and the reason.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

namespace folio::core {

/// Throws Error if the path contains a NUL byte, because the system would ignore what follows it.
void require_path(const std::filesystem::path& path);

/// Return true if the path exists, is a directory, or is a regular file, respectively. Follow symbolic links. Throw
/// Error if a link loop, a name that is too long, or a directory without permission prevents the check.
[[nodiscard]] bool path_exists(const std::filesystem::path& path);
[[nodiscard]] bool is_folder(const std::filesystem::path& path);
[[nodiscard]] bool is_plain_file(const std::filesystem::path& path);

/// Returns the absolute path without ".", ".." and a "/" at its end. Keeps symbolic links.
[[nodiscard]] std::filesystem::path normal_path(const std::filesystem::path& path);

/// Returns a directory's name, or a file's name without its extension. `path` may end with "/", "." or "..".
[[nodiscard]] std::string plain_name(const std::filesystem::path& path);

/// Returns the size of a regular file in bytes. Throws Error for anything else.
[[nodiscard]] uint64_t size_of_file(const std::filesystem::path& path);

/// Returns the path without symbolic links, "." and "..". Components that do not exist are kept.
[[nodiscard]] std::filesystem::path without_links(const std::filesystem::path& path);

[[nodiscard]] std::filesystem::path absolute_path(const std::filesystem::path& path);

/// Returns the regular files in the directory and its subdirectories, sorted, without hidden files and directories
/// (".git"). Links to directories are not followed.
[[nodiscard]] std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder);

/// Creates the directory and its missing parents. Returns true if the directory did not exist.
bool make_folders(const std::filesystem::path& folder);

/// Returns the message for an errno value, with a remedy if known: "File name too long; use a shorter name".
[[nodiscard]] std::string reason_of(int error);

/// Returns "a folder", "a pipe" and so on for the mode that stat() returned.
[[nodiscard]] const char* kind_of_file(mode_t mode);

/// Returns the exception's message for a user as one line. For a filesystem_error: "cannot access PATH: REASON".
[[nodiscard]] std::string describe(const std::exception& error);

}  // namespace folio::core
