// What a power cut would leave of a folder in which a child process works.
//
//   recorder disk(folder);                            // all that is there is durable
//   if (fork() == 0) { disk.in_child(); ... }         // its syncs are told to the parent from now on
//   disk.run(child, 20ms);                            // answers its syncs for so long, then stops it
//   disk.look();                                      // what its page cache holds now
//   disk.draw(image, random);                         // one of the states that a power cut may leave; as often as
//   wanted disk.resume();                                    // the child goes on
//
// The program that includes this has an fdatasync() and an fsync() of its own, which do nothing but tell the parent.
// The model is that of tests/crash (media.hpp, the page cache): each 512-byte sector is as it was at some moment since
// the last completed sync of its file, a different one for each; so is a file's size. A sync that begins keeps what was
// there then, once it has returned. A name is there, or gone, surely, once its folder was synced; before that each
// change of a folder may be there or not, but those of a folder in which something was renamed are there together.
// Whenever something is read, the child is stopped as a whole (SIGSTOP), so that each sector is as it was at one
// instant. Threads: of the child any number sync at once; the parent's calls belong to one.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace icecore::service::crashes {

class recorder {
 public:
  /// A device that lies answers a sync at once, and does it some milliseconds later.
  enum class device : std::uint8_t { honest, lies };

  explicit recorder(std::filesystem::path folder, device kind = device::honest);
  ~recorder();
  recorder(const recorder&) = delete;
  recorder& operator=(const recorder&) = delete;

  void in_child();
  /// Answers the child's syncs for so long, or also until the next sync begins or ends, and stops the child. Throws
  /// std::runtime_error if it ends by itself.
  void run(pid_t child, std::chrono::microseconds so_long, bool up_to_a_sync);
  /// Of the child, which is stopped.
  void look();
  void resume();
  /// Precondition: look() was called since run(). `to` is not there yet.
  void draw(const std::filesystem::path& to, std::mt19937_64& random) const;

  /// What fdatasync() and fsync() are here.
  static int told_sync(int descriptor);

  [[nodiscard]] std::uint64_t syncs() const noexcept { return syncs_; }

 private:
  using content = std::shared_ptr<const std::string>;
  using identity = std::pair<std::uint64_t, std::int64_t>;  // the inode's number, and when it was made
  using names = std::map<std::string, identity>;
  struct moment {
    content bytes{};
    names entries{};
    std::uint64_t when = 0;
  };
  struct node {
    bool folder = false;
    moment durable{};
    std::vector<moment> since{};  // files: as they were at syncs that have not replaced `durable`
    moment now{};
  };
  struct told;
  struct shared;
  struct owed {
    identity which;
    moment then;
    std::chrono::steady_clock::time_point due;
  };

  int tell(unsigned thread, int descriptor);
  void look_at(const std::filesystem::path& path, bool durable);
  void answer(const told& what);
  void become_durable(const identity& which, const moment& then);
  void pay(bool all);
  void stop_child();
  node& known(const identity& which, bool folder);
  void draw_folder(const node& of, const std::filesystem::path& to, std::mt19937_64& random, unsigned kind) const;

  const std::filesystem::path folder_;
  const device kind_;
  shared* shared_;
  int ends_[2];
  pid_t child_ = -1;
  bool stopped_ = false;
  identity root_{};
  std::map<identity, node> nodes_;
  std::map<unsigned, std::pair<identity, moment>> running_;  // by the child's thread
  std::deque<owed> owed_;                                    // what a device that lies has still to write
  std::uint64_t when_ = 0;
  std::uint64_t syncs_ = 0;
  std::atomic<unsigned> calls_{0};  // the child's
};

}  // namespace icecore::service::crashes
