(ns crawler.url-test
  (:require
   [clojure.test :refer [are deftest is testing]]
   [crawler.url :as url]))

(def ^:private base "http://host/docs/page.html?old=1")

(deftest links-resolve-against-their-page
  (are [href address] (= {:url address} (url/resolve-link base href))
    "next.html"           "http://host/docs/next.html"
    "../up.html"          "http://host/up.html"
    "../../../above.html" "http://host/above.html"
    "/root"               "http://host/root"
    "//other/x"           "http://other/x"
    "?q=2"                "http://host/docs/page.html?q=2"
    "#here"               "http://host/docs/page.html?old=1"
    ""                    "http://host/docs/page.html?old=1"
    "HTTPS://Other:443/"  "https://other/"))

(deftest one-page-has-one-spelling
  (are [text] (= {:url "http://host/"} (url/parse text))
    "http://host" "http://host/" "HTTP://HOST:80/" "http://host/#top" "  http://host/./ " "http://host/x/.."))

(deftest illegal-characters-are-repaired-as-a-browser-would
  (are [href address] (= {:url address} (url/resolve-link base href))
    "a b.html"       "http://host/docs/a%20b.html"
    "ä.html"         "http://host/docs/%C3%A4.html"
    "100%.html"      "http://host/docs/100%25.html"
    "x\n.html"       "http://host/docs/x.html"
    "<{|}>.html"     "http://host/docs/%3C%7B%7C%7D%3E.html"
    "ok%20kept.html" "http://host/docs/ok%20kept.html"))

(deftest what-nobody-can-repair-is-named
  (are [href] (= href (:bad (url/resolve-link base href)))
    "http://" "http://[nonsense/" "http:///no-host" "http://host:99999/" "http://host:port/" "http://exa mple/")
  (testing "an address to start from must be absolute"
    (is (= "www.example.org" (:bad (url/parse "www.example.org"))))
    (is (= "" (:bad (url/parse ""))))))

(deftest what-is-no-page-is-ignored
  (are [href] (= {:ignored href} (url/resolve-link base href))
    "mailto:me@host" "javascript:void(0)" "ftp://host/file" "data:text/html,hello" "tel:123"))
