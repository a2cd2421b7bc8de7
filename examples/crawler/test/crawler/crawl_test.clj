(ns crawler.crawl-test
  (:require
   [clojure.java.io :as io]
   [clojure.test :refer [deftest is testing]]
   [crawler.crawl :as crawl]
   [crawler.server :as server]
   [crawler.summary :as summary]
   [magnetar.async :as a])
  (:import
   (java.nio.file Files)
   (java.nio.file.attribute FileAttribute)))

(defn- temporary-folder []
  (.toFile (Files/createTempDirectory "crawler" (make-array FileAttribute 0))))

(defn- folder-of
  "Returns a folder of `n` pages: the index links to all, each of them to its neighbour."
  [n]
  (let [folder (temporary-folder)
        link   #(str "<a href='" % ".html'>" % "</a>")]
    (spit (io/file folder "index.html") (apply str (map link (range n))))
    (dotimes [i n]
      (spit (io/file folder (str i ".html")) (link (mod (inc i) n))))
    folder))

(defn- with-server [options f]
  (let [server (server/start options)]
    (try (f server) (finally (server/stop server)))))

(def ^:private patience-ms 20000)

(defn- result
  "Returns the summary of `crawl`; `:hangs` when it does not come in time."
  [crawl]
  (a/alt!!
    (:summary crawl)         ([summary] summary)
    (a/timeout patience-ms) :hangs))

(deftest every-page-of-a-site-is-fetched-once
  (with-server {:folder (folder-of 100)}
    (fn [server]
      (doseq [concurrency [1 7 1000]]
        (testing (str concurrency " fetches at once")
          (let [index (str (:url server) "m0/index.html")
                {:keys [lost outcomes]} (result (crawl/start index {:concurrency concurrency, :keep-pages true}))]
            (is (zero? lost))
            (is (= #{:ok} (set (map :outcome outcomes))))
            (is (= 101 (count (set (map :url outcomes))) (count outcomes)))))))))

(deftest a-crawl-that-cannot-start-has-one-outcome
  (doseq [[address reason] {"" :bad-url, "http://no-such-host.invalid/" :unknown-host}]
    (let [{:keys [seen ok failures]} (result (crawl/start address {}))]
      (is (= [1 0 {reason 1}] [seen ok failures])))))

(defn- cancel-under-way
  "Cancels a crawl of `server` at the first moment that `n` fetches are under way; returns its summary."
  [server n options]
  (let [crawl (crawl/start (:url server) options)]
    (while (< (server/waiting server) n)
      (Thread/onSpinWait))
    ((:cancel crawl))
    (result crawl)))

(deftest a-cancelled-crawl-ends-at-once-and-accounts-for-every-page
  (with-server {:folder (folder-of 200), :latency [0 1000]}
    (fn [server]
      (let [{:keys [lost failures]} (cancel-under-way server 5 {:timeout 60000})]
        (is (zero? lost))
        (is (pos? (:cancelled failures 0)))))))

(deftest the-summary-in-words-names-every-reason
  (let [text (summary/text {:seen 3, :pages 3, :lost 0, :ok 1, :bytes 10, :links 2, :ms 1500
                            :failures {:http-404 1, :no-answer 1}
                            :samples  {:http-404 [{:url "http://host/x", :via "http://host/", :detail "gone"}]}})]
    (is (= (str "3 pages seen, 3 outcomes, 0 lost, in 1.5 s\n"
                "       1  ok                   10 bytes, 2 links\n"
                "       1  http-404             the server answered 404\n"
                "          http://host/x on http://host/: gone\n"
                "       1  no-answer            no answer in time")
           text))))
