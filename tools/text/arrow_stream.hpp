// Columns of results as an Arrow IPC stream: the bytes that pyarrow.ipc.open_stream(), DuckDB and others read.
//
//   arrow_stream stream(out());
//   stream.write(columns, rows);          // a record batch; the first one also tells the schema
//   stream.finish();
//
// Written without a library: Debian 12 has neither Arrow's nor nanoarrow. Messages are flatbuffers of four tables,
// whose layout the Arrow columnar format fixes ("Serialization and Interprocess Communication", metadata version V5);
// columns are laid out as Arrow does already. Texts are `large_binary`.
//
// Threads: one.
#pragma once

#include <string>
#include <vector>

#include "icecore/filtered.hpp"
#include "text/output.hpp"

namespace icecore::cli {

class arrow_stream {
 public:
  explicit arrow_stream(output& to) noexcept : to_(&to) {}

  /// A batch of the first `rows` rows. All batches have the columns of the first one.
  void write(const std::vector<result_values>& columns, std::size_t rows);
  /// Call it at the end, after at least one batch, which may be empty.
  void finish();

 private:
  void write_message(std::string metadata);

  output* to_;
  bool begun_ = false;
};

}  // namespace icecore::cli
