//! Liveness and readiness of a cell's processes, as monitoring tools check them.

use crate::cell::{Cell, Role};
use crate::eventually::until;
use crate::pages::{Of, call, page, page_as, value_is};

#[test]
fn readiness_is_shown_only_to_certificates_of_the_cell() {
    let cell = Cell::start();
    for of in [Of::Master, Of::Borglet] {
        assert_eq!(page(&cell, of, "/livez"), (200, "ok\n".to_owned()), "{of:?}");
        assert_eq!(page(&cell, of, "/readyz"), (200, "ok\n".to_owned()), "{of:?}");
    }
    let verbose =
        "[+] disk ok\n[+] caught-up ok\n[+] leader ok\n[+] threads ok\n[+] queue ok\nok\n";
    assert_eq!(page(&cell, Of::Master, "/readyz?verbose"), (200, verbose.to_owned()));
    let verbose = "[+] driver ok\n[+] tasks ok\n[+] polled ok\nok\n";
    assert_eq!(page(&cell, Of::Borglet, "/readyz?verbose"), (200, verbose.to_owned()));

    cell.ok("bourg user add ana");
    assert_eq!(page_as("ana", &cell, Of::Master, "/readyz").0, 200);
    cell.ok("bourg user revoke ana");
    for path in ["/livez", "/readyz", "/metrics"] {
        let (status, said) = page_as("ana", &cell, Of::Master, path);
        assert_eq!(status, 403, "{path}: {said}");
        assert!(said.contains("the certificates that ana had were revoked"), "{path}: {said}");
    }
    let refused = "bourg_requests_refused_total{cause=\"revoked\",band=\"none\"}";
    value_is(&cell, Of::Master, refused, 3.0);

    for of in [Of::Master, Of::Borglet] {
        let (name, address) = (of.server_name(), of.address(&cell));
        let line = format!(
            "curl --silent --show-error --cacert cell/client/user.ca.pem --connect-to \
             ::{address} https://{name}/livez"
        );
        assert_eq!(cell.types(&line).stdout, "", "{of:?} answers whoever has no certificate");
    }
}

/// A probe with a misspelt path must not succeed.
#[test]
fn a_missing_page_is_not_found_and_existing_pages_are_named() {
    let cell = Cell::start();
    for of in [Of::Master, Of::Borglet] {
        for path in
            ["/", "/healthz", "/health", "/ready", "/livez/", "/Livez", "/bourg.v1.Nothing/Do"]
        {
            let (status, said) = page(&cell, of, path);
            assert_eq!(status, 404, "{of:?} {path}: {said}");
            assert!(
                said.contains("the pages are /livez, /readyz, /metrics"),
                "{of:?} {path}: {said}"
            );
        }
        // A gRPC client gets the error in gRPC's form.
        let (status, said) = call(&cell, of, "/bourg.v1.Nothing/Do");
        assert_eq!(status, 200, "{of:?}: {said}");
        assert!(said.contains("grpc-status: 12"), "{of:?}: {said}");
    }
}

#[test]
fn a_master_that_was_started_again_says_so() {
    let cell = Cell::start();
    value_is(&cell, Of::Master, "bourg_restarts_total", 0.0);
    cell.kill(Role::Master);
    until("it answers again", || cell.types("bourg cell").code == 0);
    value_is(&cell, Of::Master, "bourg_restarts_total", 1.0);
    value_is(&cell, Of::Master, "bourg_term", 2.0);
}
