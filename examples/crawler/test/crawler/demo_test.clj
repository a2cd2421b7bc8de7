(ns crawler.demo-test
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [crawler.crawl :as crawl]
   [crawler.demo :as demo]
   [crawler.experiments :as experiments]
   [crawler.server :as server]
   [crawler.site :as site]
   [crawler.table :as table])
  (:import
   (java.io File)
   (java.net URI)
   (java.net.http HttpClient HttpRequest HttpResponse HttpResponse$BodyHandlers)
   (java.nio.file Files)
   (java.nio.file.attribute FileAttribute)))

(defn- temporary-folder ^File []
  (.toFile (Files/createTempDirectory "demo" (make-array FileAttribute 0))))

(defn- folder-with
  "Returns a new folder that holds `texts`, by path."
  [texts]
  (let [folder (temporary-folder)]
    (doseq [[path text] texts
            :let [file (io/file folder path)]]
      (io/make-parents file)
      (spit file text))
    folder))

(deftest the-papers-of-a-project-become-a-site
  (let [root  (folder-with {"README.md" "# Hello\n\n[guide](docs/guide.md#start)", "docs/guide.md" "text", ".cache/x.md" "no"})
        cache (temporary-folder)
        site  (site/build root cache)]
    (is (= #{"index.html" "README.html" "docs/guide.html"} (set (server/pages site))))
    (is (str/includes? (slurp (io/file site "README.html")) "href=\"docs/guide.html#start\""))
    (testing "which is built anew only when a paper changes"
      (spit (io/file site "kept.html") "")
      (site/build root cache)
      (is (.exists (io/file site "kept.html")))
      (spit (io/file root "docs/new.md") "new")
      (site/build root cache)
      (is (not (.exists (io/file site "kept.html"))))
      (is (.exists (io/file site "docs/new.html"))))))

(deftest a-folder-without-pages-cannot-be-served
  (is (str/includes? (demo/obstacle (io/file "/no/such/folder")) "There is no folder"))
  (is (str/includes? (demo/obstacle (temporary-folder)) "There is no HTML file"))
  (is (nil? (demo/obstacle (folder-with {"a.html" ""})))))

(defn- get-page
  "Returns status and body of the page at `path` on `server`."
  [server path]
  (with-open [client (HttpClient/newHttpClient)]
    (let [request (.build (HttpRequest/newBuilder (URI. (str (:url server) path))))
          ^HttpResponse response (.send client request (HttpResponse$BodyHandlers/ofString))]
      [(.statusCode response) (.body response)])))

(deftest a-served-folder-has-a-map-an-index-and-an-end
  (let [server (server/start {:folder (folder-with {"a.html" "<p>a", "b/c.html" "<p>c"}), :mirrors 2})]
    (try
      (is (= [200 "<p>c"] (get-page server "m1/b/c.html")))
      (is (str/includes? (second (get-page server "m0/index.html")) "href=\"./b/c.html\""))
      (is (= 2 (count (re-seq #"href=\"/m\d/a.html\"" (second (get-page server ""))))))
      (testing "and serves nothing outside"
        (is (= 404 (first (get-page server "m0/../../../etc/passwd"))))
        (is (= 404 (first (get-page server "m0/%2e%2e/%2e%2e/etc/passwd")))))
      (finally (server/stop server)))))

(deftest names-that-no-address-can-hold-are-served-all-the-same
  (let [names  ["it's.html" "a b.html" "ä.html" "100%.html" "q?.html" "h#.html"]
        server (server/start {:folder (folder-with (zipmap names (repeat "<p>here")))})]
    (try
      (let [{:keys [outcomes]} (crawl/crawl (server/address server "/m0/index.html") {:keep-pages true})]
        (is (= (set (cons "/m0/index.html" (map #(str "/m0/" %) names)))
               (set (map #(.getPath (URI. (:url %))) (filter #(= :ok (:outcome %)) outcomes))))))
      (finally (server/stop server)))))

(deftest latency-is-the-same-for-everyone-who-asks
  (let [server {:seed 7, :latency [50 250]}
        paths  (map #(str "/m0/" % ".html") (range 1000))]
    (is (= (map #(server/latency server %) paths) (map #(server/latency server %) paths)))
    (is (every? #(<= 50 (server/latency server %) 250) paths))))

(deftest numbers-have-the-factors-of-the-articles
  (is (= [2 2 3] (experiments/factors 12)))
  (is (= [29 982451653] (experiments/factors (* 29 982451653))))
  (is (= [[] [2] [3] [2 2] [97] [2 2 3 3]] (map experiments/factors [1 2 3 4 97 36]))))

(defn- context [server]
  (let [index (str (:url server) "m0/index.html")]
    {:site index, :site-latency (select-keys server [:seed :latency]), :quick-page index
     :slow-pages [index], :slowest-page 1, :pages [index index], :slowest-of-pages 1}))

(deftest every-experiment-has-a-result
  (let [server (server/start {:folder (folder-with {"index.html" "<a href=a.html>a</a>", "a.html" "<p>a"}), :latency [1 9]})]
    (try
      (let [run     (experiments/start (context server))
            results (map run (remove #{:a4-32 :a4-64} experiments/order))]
        (is (= (remove #{:a4-32 :a4-64} experiments/order) (map :id results)))
        (is (empty? (keep :failed results)))
        (is (every? pos? (map :ms results)))
        (is (every? pos? (map :ideal results))))
      (finally (server/stop server)))))

(deftest the-libraries-run-each-row-in-turn-and-another-one-begins-each-time
  (let [turns (demo/turns experiments/rows 3)]
    (is (= (set (map :id experiments/rows)) (set (map first turns))))
    (is (= 1 (count (set (vals (frequencies (map second turns)))))) "all as often")
    (is (= [[0 1 2] [1 2 0] [2 0 1]] (take 3 (partition 3 (map second turns)))))
    (is (= 9 (count (filter #{:crawl} (map first turns)))) "three times each")))

(deftest results-become-a-table
  (is (= (str "                  old     new\n"
              "milliseconds   engine     one  ideal\n"
              "------------  -------  ------  -----\n"
              "Sleep            10.1   1,234   10.0\n"
              "Compute       not run  failed    5.0")
         (table/text [{:id :sleep, :title "Sleep"} {:id :compute, :title "Compute"}]
                     [["old" "engine"] ["new" "one"]]
                     [{:sleep {:ms 10.12, :ideal 10}}
                      {:sleep {:ms 1234.4, :ideal 11}, :compute {:failed "no", :ideal 5}}]))))
