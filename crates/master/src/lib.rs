//! The Borgmaster's decisions beside the cell: requests, reports of machines, orders
