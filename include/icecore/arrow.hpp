// Columns of results as Apache Arrow takes them, without copying them.
//
//   ArrowSchema schema;
//   ArrowArray batch;
//   auto found = std::make_shared<const icecore::result_columns>(s.at(7).extract(dear, {"key", "price"}));
//   icecore::export_to_arrow(found, schema, batch);
//   auto imported = arrow::ImportRecordBatch(&batch, &schema);
//
// Ownership, threads: those of arrow.h. What is exported outlives the store.
// Types: boolean, int64, uint64, double, large_binary; all of them nullable.
// Cost: O(columns).
// Source: the Arrow C data interface, https://arrow.apache.org/docs/format/CDataInterface.html.
#pragma once

#include <memory>
#include <vector>

#include "icecore/arrow.h"
#include "icecore/filtered.hpp"

namespace [[gnu::visibility("default")]] icecore {

using result_columns = std::vector<result_values>;

/// The columns, which have one length, as a record batch: a struct array with a child for each, and its schema. They
/// may be exported any number of times, and live as long as any of what was exported. On an exception both structures
/// are as before.
void export_to_arrow(const std::shared_ptr<const result_columns>& columns, ArrowSchema& schema, ArrowArray& batch);

/// The same as a stream of one record batch.
void export_to_arrow(std::shared_ptr<const result_columns> columns, ArrowArrayStream& stream);

}  // namespace icecore
