// Columns of results as Apache Arrow takes them, without copying them.
//
//   ArrowSchema schema;
//   ArrowArray batch;
//   icecore::export_to_arrow(s.at(7).extract(dear, {"key", "price"}), schema, batch);
//   auto imported = arrow::ImportRecordBatch(&batch, &schema);
//
// Ownership, threads: those of arrow.h. What is exported outlives the store.
// Types: boolean, int64, uint64, double, large_binary; all of them nullable.
// Cost: O(columns).
// Source: the Arrow C data interface, https://arrow.apache.org/docs/format/CDataInterface.html.
#pragma once

#include <vector>

#include "icecore/arrow.h"
#include "icecore/filtered.hpp"

namespace [[gnu::visibility("default")]] icecore {

/// The columns, which have one length, as a record batch: a struct array with a child for each, and its schema.
/// On an exception both are as before.
void export_to_arrow(std::vector<result_values> columns, ArrowSchema& schema, ArrowArray& batch);

/// The same as a stream of one record batch.
void export_to_arrow(std::vector<result_values> columns, ArrowArrayStream& stream);

}  // namespace icecore
