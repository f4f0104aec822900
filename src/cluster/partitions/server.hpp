// Answers the requests of other ranks from the store of this one.
//
// Never waits for another rank (P2 of progress.hpp). An error becomes an answer, which the asker throws. An error that
// cannot become an answer, because memory has run out or the request names no tag, is thrown here and breaks the
// cluster. Threads: any number; requests are independent of each other.
#pragma once

#include <atomic>

#include "cluster/copy/checkpoints.hpp"
#include "cluster/messages/messenger.hpp"
#include "cluster/messages/wire.hpp"
#include "cluster/partitions/store_partition.hpp"
#include "cluster/signals.hpp"

namespace icecore::mpi {

class server {
 public:
  server(messenger& messages, store_partition& own, signal_board& signals, checkpoints& running)
      : messages_(messages), own_(own), signals_(signals), checkpoints_(running) {}

  void answer(const message& request);

 private:
  [[nodiscard]] std::string reply_to(kind asked, int source, unpacker in);
  void find(unpacker& in, packer& out);
  void find_many(unpacker& in, packer& out);
  void write(unpacker& in, packer& out);
  void apply(unpacker& in, packer& out);
  void apply_if(unpacker& in, packer& out);
  void history(unpacker& in, packer& out);
  void scan(unpacker& in, packer& out);
  void tags(unpacker& in, packer& out);
  void page(unpacker& in, packer& out);
  void feed(unpacker& in, packer& out);

  messenger& messages_;
  store_partition& own_;
  signal_board& signals_;
  checkpoints& checkpoints_;
};

}  // namespace icecore::mpi
