// The keys of another rank of this node, accessed in that rank's memory: its pool and index are mapped here too, and
// the owner takes no part. Only what needs the owner is sent as messages: updates, syncs, signals and lists of tags.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "cluster/partitions/remote_partition.hpp"
#include "cluster/partitions/store_partition.hpp"

namespace icecore::mpi {

class attached_partition final : public store_partition {
 public:
  /// `attached` is the owner's store, opened with access::attached.
  attached_partition(std::unique_ptr<store> attached, const std::atomic<protection>& allowed,
                     std::unique_ptr<remote_partition> messages)
      : store_partition(*attached, allowed, {}), attached_(std::move(attached)), messages_(std::move(messages)) {}

  std::vector<tag_info> tags(std::optional<std::string_view> name) override { return messages_->tags(name); }
  std::string update(std::string_view key, int number, std::string_view input) override {
    return messages_->update(key, number, input);
  }
  answer<version> sync() override { return messages_->sync(); }
  void signal(int signum) override { messages_->signal(signum); }
  void detach() override {
    end_feeds();
    attached_.reset();
  }

 private:
  std::unique_ptr<store> attached_;  // the base class refers to it
  std::unique_ptr<remote_partition> messages_;
};

}  // namespace icecore::mpi
