// SPDX-License-Identifier: Apache-2.0 OR MIT
pub mod address;
pub mod endpoint;
pub mod frame;
pub mod greeting;
