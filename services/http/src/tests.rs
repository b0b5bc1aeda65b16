//! Tests of the component with clients over its TCP/IP.

mod slow_clients;
