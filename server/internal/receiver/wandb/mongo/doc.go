// Package mongo reads the filters and orders of W&B's public API, which look like
// MongoDB's, and judges runs by them. It does no I/O: a Record gives the fields of
// a run.
//
// # Fields
//
// A path begins with a field; fields.go lists them with all their spellings. Below
// config and summary_metrics the path goes on with keys. A key may have dots
// itself: where several readings of a path lead to something, the one with the
// longest first key wins. W&B keeps a config as {key: {"value": …}}; the path may
// name this "value" after the first key or at the end, and need not.
//
// An array on the way stands for its elements that are objects, as in MongoDB;
// where the path has a number next, it stands for that element alone. So a path can
// lead to several values, and a condition holds if it holds for one of them. Where a
// path leads nowhere the value is missing.
//
// # Conditions
//
//   - Equality, $eq, $ne, $in, $nin: any JSON value. An array has a value if it is
//     the value, or if one of its elements is. Thus {"tags": "x"} means that x is
//     one of the tags. null also holds for a missing value.
//   - $gt, $gte, $lt, $lte: numbers with numbers, texts with texts, bools with bools,
//     null with null; other pairs never hold. NaN is not ordered. Of an array, one
//     element is enough.
//   - $exists, $size, $all: as in MongoDB.
//   - $regex with $options (i, m, s), $contains: on a text, on each text of an array,
//     and on the JSON text of every value that is no text, laid out as Python's
//     json.dumps does. So null is the text `null`, and a list is `["a", "b"]`.
//   - $and, $or, $nor, $not, between filters and between the conditions of one field.
//
// Times of runs are compared as times where both sides can be read as a time, and
// as texts otherwise. A time without a zone is UTC.
//
// # Bounds
//
// A filter has at most MaxBytes bytes, is nested MaxDepth deep and has MaxConditions
// conditions. Regular expressions are Go's, RE2, so a match takes a time linear in
// the text. Their programs are bounded too, and so is the product of a program and
// the text it runs over: Match answers with an error instead of a long wait.
//
// # Orders
//
// ParseOrder reads orders. Values of several types lie as in MongoDB: numbers,
// texts, objects, arrays, bools. What has no rank comes last, up and down: NaN, then
// null, then missing values. Runs that are equal in an order stay so: the caller
// breaks the tie. Texts, objects and arrays are compared by their first 1,024 bytes.
package mongo
