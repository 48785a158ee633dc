#include "experiments/common/ranks.h"

#include <ATen/Parallel.h>
#include <arpa/inet.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

#include "core/error.h"

namespace folio::experiments {
namespace {

constexpr const char* kSelf = "/proc/self/exe";  // also argv[0] of ranks, which distinguishes them from other programs

// Returns a free port. Another process may bind it before rank 0 does; rank 0 then reports the error.
uint16_t free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool found = socket >= 0 && bind(socket, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  const int error = errno;
  if (socket >= 0) close(socket);
  core::require(found, "no free port on 127.0.0.1: {}", std::strerror(error));
  return ntohs(address.sin_port);
}

bool is_ours(std::string_view variable) {
  for (const std::string_view name : {"RANK=", "WORLD_SIZE=", "MASTER_ADDR=", "MASTER_PORT=", "OMP_NUM_THREADS="}) {
    if (variable.starts_with(name)) return true;
  }
  return variable.starts_with("TORCHELASTIC_") || variable.starts_with("LOCAL_WORLD_SIZE=");
}

pid_t start(const std::vector<std::string>& arguments, std::vector<std::string> environment) {
  std::vector<char*> argv, envp;
  std::string name = kSelf;
  argv.push_back(name.data());
  std::vector<std::string> own = arguments;
  for (std::string& argument : own) argv.push_back(argument.data());
  argv.push_back(nullptr);
  for (std::string& variable : environment) envp.push_back(variable.data());
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!is_ours(*variable)) envp.push_back(*variable);
  }
  envp.push_back(nullptr);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, name.c_str(), nullptr, nullptr, argv.data(), envp.data());
  core::require(error == 0, "this program can't be started as a rank: {}", std::strerror(error));
  return pid;
}

}  // namespace

void run_ranks(int64_t n, const std::vector<std::string>& arguments) {
  const std::string port = fmt::format("MASTER_PORT={}", free_port());
  std::vector<pid_t> pids;
  for (int64_t rank = 0; rank < n; ++rank) {
    pids.push_back(start(arguments, {fmt::format("RANK={}", rank), fmt::format("WORLD_SIZE={}", n),
                                     "MASTER_ADDR=127.0.0.1", port, "OMP_NUM_THREADS=1"}));
  }
  int64_t failed = -1;
  for (int64_t left = n; left > 0;) {
    int status = 0;
    const pid_t pid = wait(&status);
    if (pid < 0 && errno == EINTR) continue;
    core::require(pid >= 0, "the ranks can't be waited for: {}", std::strerror(errno));
    for (size_t rank = 0; rank < pids.size(); ++rank) {
      if (pids[rank] != pid) continue;
      pids[rank] = 0;
      --left;
      if (failed >= 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) continue;
      failed = static_cast<int64_t>(rank);
      for (const pid_t other : pids) {
        if (other > 0) kill(other, SIGTERM);
      }
    }
  }
  core::require(failed < 0, "rank {} of {} failed; what it said stands above", failed, n);
}

std::optional<int> run_as_rank(
    int argc, char** argv,
    const std::function<void(const train::parallel::Launch&, const std::vector<std::string>&)>& as_rank) {
  try {
    const auto launch = train::parallel::launch_from_environment();
    if (!launch) return {};
    core::require(std::string_view(argv[0]) == kSelf,
                  "RANK is set, but a study starts its ranks itself: run it without RANK and WORLD_SIZE");
    at::set_num_threads(1);
    try {
      as_rank(*launch, {argv + 1, argv + argc});
      return 0;
    } catch (const std::exception& error) {
      const std::string what = error.what();  // LibTorch appends a stack trace after the first line
      fmt::print(stderr, "rank {}: {}\n", launch->rank, what.substr(0, what.find('\n')));
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
  }
  return 1;
}

}  // namespace folio::experiments
