//! HTTP/1.1 without input or output: parsing requests, making responses.
